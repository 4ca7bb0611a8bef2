"""A program that becomes another user before it uses CUDA, and others of that user outside of the job."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import Cli, eventually
from torpor import api, errors, paths
from torpor.keeper.control import HEADER, MAGIC, VERSION, Op, sockets_in
from torpor.process import tree
from torpor.records import JobState

pytestmark = pytest.mark.criu

NOBODY = 65534
ROOT = 300
"""The pid of a job's root process, as the job sees it."""
AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
SOURCE = Path(__file__).with_name("other_user.c")


def compile_to(program: Path, *options: str) -> None:
    command = [os.environ.get("CC", "gcc"), "-std=gnu11", "-O1", "-o", str(program), str(SOURCE), *options, "-ldl"]
    subprocess.run(command, check=True)


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A folder that everybody may read, with the program."""
    folder = Path(tempfile.mkdtemp(prefix="tp-", dir="/tmp"))
    folder.chmod(0o755)
    compile_to(folder / "other_user")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def stop(place: Path) -> Iterator[Path]:
    """The file at which the program ends."""
    file = place / "stop"
    yield file
    file.unlink(missing_ok=True)


def steps(job: api.Job) -> list[int]:
    """Those that were told of, each by nobody."""
    return [int(step) for step in re.findall(rb"^65534 (\d+)$", b"".join(job.logs()), re.MULTILINE)]


def goes_on(job: api.Job) -> None:
    before = len(steps(job))
    eventually(lambda: len(steps(job)) >= before + 5 or job.state is not JobState.RUNNING)
    assert job.state is JobState.RUNNING, b"".join(job.logs())[-500:]


def finish(job: api.Job, stop: Path) -> None:
    stop.touch()
    assert job.wait(100)
    said = b"".join(job.logs()).splitlines()
    assert (job.exit_code, said[-1:]) == (0, [b"right"]), said[-3:]
    assert said[:-1] == [b"65534 %d" % (number + 1) for number in range(len(said) - 1)]


def inside(job: api.Job) -> int:
    """The pid of the one that uses CUDA, as the job sees it."""
    [pid] = eventually(lambda: sockets_in(paths.control_dir(job.name)))
    return int(pid)


def on_host(job: api.Job) -> int:
    """The same as the host sees it."""
    assert job.record.supervisor_pid is not None
    assert job.record.root is None or job.record.root == ROOT
    pid, supervisor = inside(job), job.record.supervisor_pid
    found = tree.read(supervisor, ROOT)
    return next(one.pid for one in found.processes if one.inner == pid)


WAYS = {
    "the job itself": (*AS_NOBODY, "{program}", "{stop}"),
    "by itself, before it uses CUDA": ("{program}", "{stop}", "before"),
    "by itself, while it uses CUDA": ("{program}", "{stop}", "after"),
    "a child of root's": ("sh", "-c", f"{' '.join(AS_NOBODY)} {{program}} {{stop}}; exit $?"),
}


def start(way: str, place: Path, stop: Path) -> api.Job:
    argv = [word.format(program=place / "other_user", stop=stop) for word in WAYS[way]]
    job = api.run(argv, name="other", gpu="sim")
    goes_on(job)
    return job


@pytest.mark.parametrize("way", WAYS)
def test_it_is_killed_and_restored_and_suspended(home: Path, torpor: Cli, place: Path, stop: Path, way: str) -> None:
    del home
    job = start(way, place, stop)
    assert [one["name"] for one in torpor.json("ps")] == ["other"]
    for _time in range(2):
        image = job.checkpoint()
        assert [process.blocks[0].size > 0 for process in image.manifest.processes] == [True]
        job = api.restore(image)
        goes_on(job)
        assert tree.status(on_host(job))["Uid"].split() == [str(NOBODY)] * 4
        for tier in ("dram", "hbm"):
            job.suspend(tier=tier)
            job.resume()
            goes_on(job)
    finish(job, stop)


def as_nobody(action: Callable[[], object]) -> str:
    """What `action` returns, or raises, in a process of that user outside of every job."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            try:
                said = repr(action())
            except Exception as error:  # noqa: BLE001  that is the answer
                said = type(error).__name__
            os.write(writer, said.encode())
            os.close(writer)
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        said = file.read().decode()
    os.waitpid(child, 0)
    return said


UNREADABLE = ("PermissionError", "NotADirectoryError", "IsADirectoryError", "OSError")


def test_others_read_nothing_of_it(home: Path, place: Path, stop: Path) -> None:
    """Neither by the home nor through the eyes of the job's process, which any process of its user has."""
    job = start("a child of root's", place, stop)
    folder = paths.job_dir(job.name)
    own = [path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.parts[len(folder.parts)] != "native"]
    assert {Path("log"), Path("job.json"), Path("supervisor.sock")} <= set(own)
    seen = Path(f"/proc/{on_host(job)}/root/run/torpor/job")
    assert as_nobody(lambda: stat.S_IMODE(seen.stat().st_mode)) == repr(0o711)  # it does come that far
    for place_of_it in (folder, seen):
        for path in (Path(), *own):
            for look in (os.listdir, lambda one: one.open("rb").read(), lambda one: one.open("ab")):
                one = place_of_it / path
                assert as_nobody(lambda: look(one)) in UNREADABLE, one  # noqa: B023
        assert as_nobody((place_of_it / "more").touch) == "PermissionError"
    for secret in (home, paths.keeper_dir(), paths.images_dir(), paths.dram_dir()):
        secret.mkdir(exist_ok=True)
        assert as_nobody(lambda: os.listdir(secret)) == "PermissionError"  # noqa: B023

    def ask() -> bytes:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as channel:
            channel.connect(str(seen / "ctl" / str(pid)))
            channel.send(HEADER.pack(MAGIC, VERSION, Op.HELLO, 0, 0))
            return channel.recv(1000)

    pid = inside(job)
    assert as_nobody(ask) in (repr(b""), "ConnectionResetError", "BrokenPipeError")
    image = job.checkpoint()
    assert as_nobody(lambda: os.listdir(image.path)) == "PermissionError"
    job = api.restore(image)
    goes_on(job)
    seen = Path(f"/proc/{on_host(job)}/root/run/torpor/job")
    for path in own:
        assert as_nobody(lambda: (seen / path).open("rb").read()) in UNREADABLE, path  # noqa: B023
    finish(job, stop)


def pose(place: Path, tell: int) -> None:
    """Listen at a name in the job's folder; tell that, and all that is heard there. Does not return."""
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as poser:
        poser.bind(str(place))
        poser.listen(8)
        os.write(tell, b"listens\n")
        while True:
            channel, _address = poser.accept()
            os.write(tell, channel.recv(1000))
            channel.close()


@pytest.mark.parametrize("whom", ["the one that uses CUDA", "another"])
def test_nobody_else_poses_as_one_of_its_processes(home: Path, place: Path, stop: Path, whom: str) -> None:
    del home
    job = start("a child of root's", place, stop)
    seen = Path(f"/proc/{on_host(job)}/root/run/torpor/job/ctl")
    socket_file = seen / str(inside(job) if whom == "the one that uses CUDA" else ROOT)
    as_nobody(lambda: socket_file.unlink(missing_ok=True))
    told, tell = os.pipe()
    poser = os.fork()
    if poser == 0:
        try:
            pose(socket_file, tell)
        finally:
            os._exit(1)
    os.close(tell)
    try:
        with os.fdopen(told, "rb", buffering=0) as said:
            assert said.read(100) == b"listens\n"
            for verb in (job.checkpoint, job.suspend):
                with pytest.raises(errors.StepFailed, match="another process listens at its control socket") as caught:
                    verb()
                assert caught.value.details["listener"] == poser
            goes_on(job)
            assert job.state is JobState.RUNNING
            os.set_blocking(said.fileno(), False)
            assert not said.read(10000)  # it was told nothing
    finally:
        os.kill(poser, signal.SIGKILL)
        os.waitpid(poser, 0)
    if whom == "another":
        as_nobody(socket_file.unlink)
        job = api.restore(job.checkpoint())
        goes_on(job)
    finish(job, stop)


LOST = {
    "environment": (("env", "-u", "LD_PRELOAD"), "its environment has lost the LD_PRELOAD"),
    "rights": (AS_NOBODY, "a program with more rights than its caller"),
}


@pytest.mark.parametrize("how", LOST)
def test_who_goes_past_is_told_why(home: Path, place: Path, stop: Path, how: str) -> None:
    """As after sudo, and as with a set-user-id program."""
    del home
    library = paths.software_gpu()
    assert library is not None
    program = place / f"past-{how}"
    compile_to(program, f"-Wl,-rpath,{library.parent}")
    if how == "rights":
        program.chmod(0o4755)
    prefix, reason = LOST[how]
    job = api.run([*prefix, str(program), str(stop)], name="past", gpu="sim")
    eventually(lambda: b"0 3\n" in b"".join(job.logs()))
    with pytest.raises(errors.Refused, match="without Torpor's library") as caught:
        job.checkpoint()
    assert reason in str(caught.value.hint)
    stop.touch()
    assert job.wait(100)
    assert job.exit_code == 0
