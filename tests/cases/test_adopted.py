"""`torpor checkpoint --pid`: processes that Torpor did not start, in the host's namespaces, with no library of ours."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import shlex
import signal
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import torpor
from tests.conftest import PATIENCE, Cli, end_family, eventually
from tests.flow import walking
from torpor import api, paths
from torpor.errors import NotFound, Refused, StepFailed
from torpor.process import strangers, tree
from torpor.process.criu_images import fields, number, raw_entries, repeated
from torpor.records import JobState

pytestmark = pytest.mark.criu

FILES = 0x56303138
REGULAR, NAME, SIZE = 3, 6, 8
"""CRIU's numbers: of its file of files, the field of a regular one there, and two fields of that."""


class Native:
    """Starts programs without Torpor, as a user does who never heard of it; ends what is left of them."""

    def __init__(self) -> None:
        library = paths.software_gpu()
        assert library is not None
        self.env = {**os.environ, "LD_LIBRARY_PATH": str(library.parent), "PYTHONPATH": str(Path.cwd())}
        self._started: list[subprocess.Popen[bytes]] = []

    def __call__(self, argv: list[str], **options: Any) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(argv, env=self.env, **options)
        self._started.append(process)
        return process

    def end(self) -> None:
        for process in self._started:
            end_family(process)
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()


@pytest.fixture(autouse=True, scope="module")
def led_session() -> None:
    """These tests may run in session 0 themselves: under an init that made none, or in a container entered into."""
    if os.getsid(0) == 0:
        if os.getpgrp() == os.getpid():  # whoever leads a group cannot begin a session
            with subprocess.Popen(["sleep", "60"], process_group=0) as other:
                os.setpgid(0, other.pid)
                other.kill()
        os.setsid()


@pytest.fixture
def native(home: Path) -> Iterator[Native]:
    del home
    made = Native()
    yield made
    made.end()


@pytest.fixture
def walk(native: Native, tmp_path: Path) -> Callable[..., tuple[subprocess.Popen[bytes], Path]]:
    """Starts the walk with its output in a file, and waits until it has taken some steps; it ends when it may."""

    def start(*more: str, **options: Any) -> tuple[subprocess.Popen[bytes], Path]:
        out = tmp_path / "out"
        with out.open("wb") as file:
            command = walking.command(*more)
            process = native(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, **options)
        eventually(lambda: len(lines(out)) > 5)
        return process, out

    return start


def position(image: torpor.Image, path: str) -> int:
    """Size of a file of the job as CRIU's image knows it."""
    for entry in raw_entries(image.path / "cpu" / "files.img", FILES):
        for file in repeated(entry, REGULAR):
            known = fields(file)
            if known.get(NAME) == path.encode():
                return number(known, SIZE)
    raise AssertionError(f"{path} is not in the image")


def lines(out: Path) -> list[str]:
    return out.read_text().splitlines()


def ends_well(job: torpor.Job, out: Path, reference: walking.Reference) -> None:
    walking.may_end().touch()
    assert job.wait(100)
    assert job.exit_code == 0, out.read_text()
    assert sorted(lines(out)) == reference


@pytest.mark.parametrize("workers", ["0", "2"])
def test_it_wakes_as_a_job_twice(
    walk: Callable[..., tuple[subprocess.Popen[bytes], Path]], home: Path, workers: str
) -> None:
    reference = walking.reference("--workers", workers)
    process, out = walk("--workers", workers)
    before = walking.traces(home)
    image = api.checkpoint_process(process.pid, name="taken")
    assert process.wait(100) == -signal.SIGKILL
    assert image.manifest.gpu_bytes == 0
    assert len(image.manifest.processes) == 1 + int(workers)
    standing = len(lines(out))
    assert api.job("taken").state is JobState.ASLEEP
    assert walking.traces(home)["processes"] == before["processes"]
    woken = torpor.restore(image)
    eventually(lambda: len(lines(out)) > standing + 5)
    again = woken.checkpoint()
    assert woken.state is JobState.ASLEEP
    ends_well(torpor.restore(again), out, reference)


def test_it_runs_on_when_asked(
    walk: Callable[..., tuple[subprocess.Popen[bytes], Path]], home: Path, tmp_path: Path
) -> None:
    reference = walking.reference()
    process, out = walk()
    paths.jobs_dir().mkdir()
    before = walking.traces(home)
    image = api.checkpoint_process(process.pid, leave_running=True, to=tmp_path / "kept")
    assert walking.traces(home) == before
    assert api.jobs() == []
    standing = position(image, str(out))
    walking.may_end().touch()
    assert process.wait(100) == 0
    assert sorted(lines(out)) == reference
    # The woken one writes where the other did, so the file must be as it knows it.
    with pytest.raises(StepFailed, match=f"the file {out} has {out.stat().st_size} bytes; the job knows it with"):
        torpor.restore(image)
    out.write_bytes(out.read_bytes()[:standing])
    ends_well(torpor.restore(image), out, reference)


def test_a_thread_means_its_process(native: Native) -> None:
    program = (
        "import threading, time\n"
        "t = threading.Thread(target=time.sleep, args=(1000,), daemon=True); t.start()\n"
        "print(t.native_id, flush=True); time.sleep(1000)\n"
    )
    process = native([sys.executable, "-c", program], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    assert process.stdout is not None
    thread = int(process.stdout.readline())
    assert thread != process.pid
    image = api.checkpoint_process(thread)
    assert image.manifest.root == process.pid
    assert process.wait(100) == -signal.SIGKILL
    assert torpor.restore(image).state is JobState.RUNNING


def test_pipes_that_led_to_its_starter_become_the_jobs_streams(native: Native) -> None:
    program = "import sys\nfor line in sys.stdin: print('got', line.strip(), flush=True)\nprint('end')"
    process = native([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"one\n")
    process.stdin.flush()
    assert process.stdout.readline() == b"got one\n"
    image = api.checkpoint_process(process.pid)
    assert process.stdout.read() == b""
    woken = torpor.restore(image)
    streams = woken.attach()
    streams.write(b"two\n")
    streams.end_input()
    assert b"".join(data for _tag, data in streams) == b"got two\nend\n"
    streams.close()


class Terminal:
    """A terminal with a shell-like leader in front of it, whose child has a process group of its own."""

    def __init__(self, argv: list[str], env: dict[str, str]) -> None:
        self.ours, theirs = pty.openpty()
        report, tell = os.pipe()
        self.leader = os.fork()
        if self.leader == 0:
            os.setsid()
            fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)
            for number in range(3):
                os.dup2(theirs, number)
            child = os.fork()
            if child == 0:
                os.setpgid(0, 0)
                os.closerange(3, 1000)
                os.execve(argv[0], argv, env)
            os.setpgid(child, child)
            signal.signal(signal.SIGTTOU, signal.SIG_IGN)
            os.tcsetpgrp(0, child)
            os.write(tell, str(child).encode())
            os.waitpid(child, 0)
            os._exit(0)
        os.close(theirs)
        os.close(tell)
        self.child = int(os.read(report, 20))
        os.close(report)

    def read_until(self, wanted: bytes) -> bytes:
        seen = b""
        while wanted not in seen:
            assert select.select([self.ours], [], [], PATIENCE)[0], seen
            seen += os.read(self.ours, 4096)
        return seen

    def end(self) -> None:
        os.kill(self.leader, signal.SIGKILL)
        os.waitpid(self.leader, 0)
        os.close(self.ours)


def test_a_terminal_becomes_the_jobs_terminal(native: Native) -> None:
    program = (
        "import os, sys, tty, termios\n"
        "tty.setcbreak(0)\n"
        "def look():\n"
        "    raw = termios.tcgetattr(0)[3] & termios.ICANON\n"
        "    line = sys.stdin.readline().strip()\n"
        "    print(line, os.tcgetpgrp(0) == os.getpgrp(), raw, *os.get_terminal_size(0), flush=True)\n"
        "print('ready', flush=True); look(); look(); look()\n"
    )
    terminal = Terminal([sys.executable, "-c", program], native.env)
    try:
        terminal.read_until(b"ready")
        os.write(terminal.ours, b"one\n")
        terminal.read_until(b"one True 0")
        image = api.checkpoint_process(terminal.child)
        assert image.manifest.stdio["stdin"] == image.manifest.stdio["stdout"] is not None
    finally:
        terminal.end()
    job = torpor.restore(image)
    job = torpor.restore(job.checkpoint())
    streams = job.attach()
    streams.resize(33, 99)
    streams.write(b"two\nthree\n")
    said = b"".join(data for _tag, data in streams)
    assert b"two True 0 99 33" in said
    assert b"three True 0 99 33" in said
    assert job.wait(100)
    assert job.exit_code == 0
    streams.close()


def test_what_cannot_be_taken_is_named(torpor: Cli, native: Native) -> None:
    with pytest.raises(NotFound, match="no process"):
        api.checkpoint_process(int(Path("/proc/sys/kernel/pid_max").read_text()) - 1)
    for thread in kernel_threads():  # a container shows none
        with pytest.raises(Refused, match="part of the kernel"):
            api.checkpoint_process(thread)
        break
    with pytest.raises(Refused, match="ancestor of this torpor"):
        api.checkpoint_process(os.getpid())
    refused = torpor("checkpoint", "--pid", str(os.getpid()), check=Refused.code)
    assert b"ancestor of this torpor" in refused.stderr
    apart = native(["unshare", "--mount", "sleep", "1000"])
    eventually(lambda: Path(f"/proc/{apart.pid}/comm").read_text() == "sleep\n")
    with pytest.raises(Refused, match="has a mount namespace of its own"):
        api.checkpoint_process(apart.pid)
    job = api.run(["sleep", "1000"], name="ours")
    inside = [pid for pid in walking.processes_of(paths.home()) if pid != job.record.supervisor_pid]
    with pytest.raises(Refused, match=r"belongs to a job of Torpor \(ours\)"):
        api.checkpoint_process(inside[0])
    torpor("checkpoint", check=2)
    torpor("checkpoint", "ours", "--pid", "1", check=2)
    assert [one.name for one in api.jobs()] == ["ours"]


def test_session_0_is_named(home: Path, native: Native, tmp_path: Path) -> None:
    out, asked = tmp_path / "out", tmp_path / "asked"
    paths.jobs_dir().mkdir()
    program = shlex.join(walking.command())
    checkpoint = shlex.join([*Cli.command, "checkpoint", "--name", "taken", "--pid"])
    script = (
        f"{program} >{out} & walk=$!\n"
        f"while ! [ -s {out} ]; do sleep 0.05; done\n"
        f"{checkpoint} $walk 2>{asked}; refused=$?; touch {walking.may_end()}\n"
        f"wait $walk && exit $refused"
    )
    inside = native(["unshare", "--pid", "--fork", "--mount-proc", "sh", "-c", script], stdin=subprocess.DEVNULL)
    assert inside.wait(100) == Refused.code, asked.read_text()
    assert "belongs to session 0" in asked.read_text()
    assert "setsid" in asked.read_text()
    assert sorted(lines(out)) == walking.reference()
    assert api.jobs() == []
    assert list(home.glob("images/*")) == []


def kernel_threads() -> Iterator[int]:
    for pid in (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()):
        try:
            facts = tree.status(pid)
        except OSError:
            continue  # it has ended
        if facts["State"][0] != "Z" and "VmSize" not in facts:
            yield pid


def test_a_program_may_show_no_command_line(native: Native) -> None:
    """It may have wiped it, or be in the midst of an exec."""
    process = native([""], executable=sys.executable, stdin=subprocess.PIPE)
    assert not Path(f"/proc/{process.pid}/cmdline").read_bytes().strip(b"\0")
    assert strangers.look_at(process.pid, os.getpid()).command == [tree.name(process.pid)]


def test_by_the_command_line(torpor: Cli, native: Native, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with out.open("wb") as file:
        process = native(["sh", "-c", "i=0; while :; do i=$((i+1)); echo $i; sleep 0.02; done"], stdout=file)
    eventually(lambda: len(lines(out)) > 3)
    beside = torpor("checkpoint", "--pid", str(process.pid), "--name", "beside", "--leave-running")
    assert b"the job runs on" in beside.stdout
    done = torpor("checkpoint", "--pid", str(process.pid), "--name", "shell")
    assert b"not started by Torpor" in done.stderr
    assert process.wait(100) == -signal.SIGKILL
    seen = len(lines(out))
    torpor("restore", "shell-1")
    eventually(lambda: len(lines(out)) > seen + 3)
    counted = lines(out)  # once: it goes on
    assert counted == [str(number) for number in range(1, len(counted) + 1)]


def test_the_process_ends_meanwhile(native: Native, home: Path) -> None:
    process = native(["sleep", "1000"])
    paths.jobs_dir().mkdir()
    before = walking.traces(home)
    record = api.launch.adopt(process.pid, name="taken", client=os.getpid())
    job = api.Job(record)
    killer = threading.Thread(target=process.kill)
    killer.start()
    killer.join()
    process.wait()
    eventually(lambda: job.state not in (JobState.RUNNING, JobState.STARTING))
    job.let_go()
    assert walking.traces(home) == before
