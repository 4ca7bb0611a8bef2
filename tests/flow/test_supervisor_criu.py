"""Real CRIU inside a job's namespaces: dumps that stand or not, and restores wherever the job woke before."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from tests.conftest import eventually
from tests.flow.supervised import ALL_KINDS, Supervised, World, world
from torpor import records
from torpor.errors import StepFailed, TorporError
from torpor.process import criu, wire
from torpor.process.client import End

__all__ = ["world"]
pytestmark = pytest.mark.criu


@pytest.fixture
def images(tmp_path: Path) -> Path:
    return tmp_path / "images"


@pytest.fixture
def job(world: World) -> Supervised:
    """A job that has one of everything, a few steps on its way."""
    started = world().start(*ALL_KINDS, stdin="pipe")
    started.walks_on()
    return started


def check_restored(job: Supervised, restored: criu.Restored, before: dict[str, object]) -> None:
    now = job.ask()
    assert {**now, "steps": 0, "of_child": 0} == {**before, "steps": 0, "of_child": 0}
    assert now["reserved"]
    job.walks_on()
    assert [process.inner for process in job.tree().processes] == [now["pid"], now["child"]]
    assert job.tree().processes[0].pid == restored.root
    assert job.info().root == 300


def test_dump_kill_restore(job: Supervised, world: World, images: Path) -> None:
    before = job.ask()
    info = job.dump(images)
    assert job.end() | {"ended": 0} == {"exit_code": None, "signal": 9, "checkpointed": True, "ended": 0}
    eventually(job.gone)
    # A step is printed twice, then recorded; it may have been stopped in between.
    recorded = int((job.folder / "record").read_text().splitlines()[-1])
    assert recorded <= max(int(line.split()[-1]) for line in job.log.splitlines()) <= recorded + 1

    woken = world("woken", like=job)
    check_restored(woken, woken.restore(images, info.stdio), before)
    steps = [int(line) for line in (woken.folder / "record").read_text().splitlines()]
    assert steps == list(range(1, len(steps) + 1))
    printed = [line for line in (job.log + woken.log).splitlines() if line.startswith("step")]
    assert printed == [f"step {n}" for n in range(1, len(printed) + 1)]


def test_a_limit_on_files_is_the_programs_alone(world: World, images: Path) -> None:
    """CRIU writes files that are longer."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    try:
        job = world().python(
            "import resource, time\n"
            "kept = bytes(range(256)) * (1 << 14)\n"
            "while True:\n"
            "    print(resource.getrlimit(resource.RLIMIT_FSIZE)[0], flush=True)\n"
            "    time.sleep(0.02)\n"
        )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    eventually(lambda: job.log)
    info = job.dump(images)
    woken = world("woken")
    woken.restore(images, info.stdio)
    eventually(lambda: woken.log)
    assert set((job.log + woken.log).split()) == {str(1 << 20)}


def test_streams_after_a_restore(job: Supervised, world: World, images: Path) -> None:
    streams = job.attach()
    streams.write(b"before\n")
    eventually(lambda: job.ask()["input"] == ["before"])
    info = job.dump(images)
    while not isinstance(end := streams.read(), End):
        assert end is not None
    assert end.checkpointed

    woken = world("woken", like=job)
    woken.restore(images, info.stdio, await_client=True)
    streams = woken.attach()
    streams.write(b"after\n")
    streams.end_input()
    eventually(lambda: woken.ask()["input"] == ["before", "after", "<end>"])
    woken.walks_on()
    with woken.client() as client:
        client.signal(signal.SIGTERM)
    pieces = list(streams)
    assert {tag for tag, _ in pieces} == {"o", "e"}
    assert streams.end is not None
    assert (streams.end.signal, streams.end.checkpointed) == (signal.SIGTERM, False)


def test_input_that_was_not_read_yet(world: World, images: Path) -> None:
    program = (
        "import os, sys, time\n"
        "os.mkdir('/run/torpor/job/ran')\n"
        "while not os.path.exists('/run/torpor/job/go'): time.sleep(0.01)\n"
        "print('read', input(), flush=True)\n"
    )
    job = world().python(program, stdin="pipe")
    job.attach().write(b"kept\n")
    eventually((job.folder / "ran").exists)
    eventually(lambda: waiting_in(job.info().stdio["stdin"], job) == 5)
    info = job.dump(images)
    woken = world("woken")
    woken.restore(images, info.stdio)
    (woken.folder / "go").touch()
    assert woken.end()["exit_code"] == 0
    assert woken.log == "read kept\n"


def waiting_in(pipe: str | None, job: Supervised) -> int:
    """Bytes in the pipe that is the job's standard input."""
    assert pipe is not None
    fd = os.open(f"/proc/{job.tree().processes[0].pid}/fd/0", os.O_RDONLY | os.O_NONBLOCK)
    try:
        return struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, bytes(4)))[0]  # type: ignore[no-any-return]
    finally:
        os.close(fd)


def test_input_that_has_ended(job: Supervised, world: World, images: Path) -> None:
    job.attach().end_input()
    eventually(lambda: job.ask()["input"] == ["<end>"])
    info = job.dump(images)
    assert info.stdio["stdin"] is None
    woken = world("woken", like=job)
    woken.restore(images, info.stdio)
    woken.walks_on()


def test_restored_twice_over_the_sockets_of_a_former_life(job: Supervised, world: World, images: Path) -> None:
    before = job.ask()
    info = job.dump(images)
    for name in ("first", "second"):
        woken = world(name, like=job)
        wire.listen(woken.folder / "ctl", "300").close()  # the file stays, as after a death
        check_restored(woken, woken.restore(images, info.stdio), before)
        with woken.client() as client:
            client.shutdown()
        eventually(woken.gone)


def test_several_copies_at_once(job: Supervised, world: World, images: Path) -> None:
    before = job.ask()
    info = job.dump(images, leave_running=True)
    job.walks_on()
    copies = [world(name, like=job) for name in ("one", "two", "three")]
    for copy in copies:
        check_restored(copy, copy.restore(images, info.stdio), before)
    for one in (job, *copies):
        one.walks_on()
    assert len({one.tree().processes[0].pid for one in (job, *copies)}) == 4


def test_a_restored_job_is_dumped_again(job: Supervised, world: World, images: Path) -> None:
    before = job.ask()
    info = job.dump(images)
    for number in range(3):
        woken = world(f"life-{number}", like=job)
        check_restored(woken, woken.restore(images, info.stdio), before)
        images = images.with_name(f"images-{number}")
        info = woken.dump(images)
        job = woken


def test_new_processes_get_new_ids_after_a_restore(world: World, images: Path) -> None:
    program = (
        "import os, subprocess, time\n"
        "os.mkdir('/run/torpor/job/ran')\n"
        "while True:\n"
        "    if os.path.exists('/run/torpor/job/go'):\n"
        "        pid = subprocess.Popen(['true']).pid\n"
        "        os.close(os.open(f'/run/torpor/job/pid-{pid}', os.O_CREAT)); os.remove('/run/torpor/job/go')\n"
        "    time.sleep(0.01)\n"
    )
    job = world().python(program)
    eventually((job.folder / "ran").exists)
    info = job.dump(images)
    woken = world("woken")
    woken.restore(images, info.stdio)
    (woken.folder / "go").touch()
    pids = eventually(lambda: [int(path.name[4:]) for path in woken.folder.glob("pid-*")])
    assert all(pid > 300 for pid in pids)


def test_rolled_back(job: Supervised, images: Path) -> None:
    """Until the verdict the tasks stand still with everything written; then they run on, and can be dumped again."""
    for number in range(2):
        folder = images.with_name(f"images-{number}")
        folder.mkdir()
        with criu.Dump(job.folder) as dump:
            dump.start(folder)
            dump.wait_written(60)
            assert {path.name for path in folder.iterdir()} >= {"inventory.img", "pstree.img", "core-300.img"}
            sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
            states = {status(process.pid) for process in job.tree().processes}
            assert states == {"t"}
            dump.roll_back("the test says so")
            dump.finish()
            assert {path.name: path.stat().st_size for path in folder.iterdir()} == sizes
        job.walks_on()
        assert "the test says so" in (job.folder / "criu" / "dump.log").read_text()


def status(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def test_rolled_back_before_it_was_written(job: Supervised, images: Path) -> None:
    images.mkdir()
    with criu.Dump(job.folder) as dump:
        dump.start(images)
        dump.roll_back("changed my mind")
        dump.finish()
    job.walks_on()


def test_rolled_back_where_the_log_has_no_room(job: Supervised, images: Path) -> None:
    images.mkdir()
    with criu.Dump(job.folder) as dump:
        dump.start(images)
        dump.wait_written(60)
        dump._log().unlink()
        dump._log().symlink_to("/dev/full")
        dump.roll_back("the disk is full")
        dump.finish()
    job.walks_on()


def test_left_without_a_verdict(job: Supervised, images: Path) -> None:
    images.mkdir()
    with criu.Dump(job.folder) as dump:
        dump.start(images)
        dump.wait_written(60)
    job.walks_on()
    eventually(lambda: job.info().criu is None)


def test_no_verdict_before_all_is_written(job: Supervised, images: Path) -> None:
    images.mkdir()
    with criu.Dump(job.folder) as dump:
        with pytest.raises(TorporError, match="has not been started"):
            dump.wait_written(1)
        dump.finish()
        dump.start(images)
        with pytest.raises(TorporError, match="before it is written"):
            dump.commit()
        with pytest.raises(TorporError, match="neither committed nor rolled back"):
            dump.finish()
    job.walks_on()


def test_the_keeper_is_killed_at_the_worst_moment(job: Supervised, images: Path) -> None:
    images.mkdir()
    program = (
        "import sys; from torpor.process import criu\n"
        f"dump = criu.Dump({str(job.folder)!r}); dump.start({str(images)!r}); dump.wait_written(60)\n"
        "print('written', flush=True); sys.stdin.read()\n"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", program], **pipes) as keeper:
        assert keeper.stdout is not None
        assert keeper.stdout.readline() == b"written\n"
        assert {status(process.pid) for process in job.tree().processes} == {"t"}
        keeper.kill()
    job.walks_on()
    eventually(lambda: job.info().criu is None)
    job.dump(images.with_name("again"))


def test_a_script_that_is_killed_is_no_commit(job: Supervised, images: Path) -> None:
    images.mkdir()
    with criu.Dump(job.folder) as dump:
        dump.start(images)
        dump.wait_written(60)
        [script] = [process for process in job.tree().strays if process.comm == "post-dump"]
        os.kill(script.pid, signal.SIGKILL)
        dump.commit()
        with pytest.raises(StepFailed, match="criu dump failed"):
            dump.finish()
    job.walks_on()


def test_a_dump_that_is_killed_leaves_no_process(job: Supervised) -> None:
    """CRIU tries what the kernel can do in processes that wait to be ended: they would pass for strays of the job."""
    for end in ("exit 1", "kill -9 $$"):
        with job.client() as client:
            client.criu(["sh", "-c", f"sleep 1000 & {end}", "dump"])
        assert job.info().criu is None
        assert job.tree().strays == ()
    job.walks_on()


def test_one_criu_at_a_time(job: Supervised, images: Path) -> None:
    images.mkdir()
    with criu.Dump(job.folder) as dump:
        dump.start(images)
        dump.wait_written(60)
        with job.client() as other, pytest.raises(TorporError, match="already at work"):
            other.criu(["true"])
        dump.roll_back("enough")
        dump.finish()


def test_a_restore_that_gets_stuck_is_ended(world: World) -> None:
    job = world()
    slow = job.folder / "slow"
    slow.write_text("#!/bin/sh\necho waiting\nexec sleep 1000\n")
    slow.chmod(0o700)
    spec = criu.RestoreSpec([str(slow)], 300, timeout=0.2)
    with pytest.raises(StepFailed, match="did not end in time"):
        criu.start_supervisor(criu.Spec("restore", str(job.folder), restore=spec))
    assert not (job.folder / wire.SOCKET_NAME).exists()
    other = world("other").start("sleep", "1000")
    assert living_in(other.folder) == {other.supervisor, other.tree().processes[0].pid}
    assert living_in(job.folder) == set()


def living_in(folder: Path) -> set[int]:
    """Processes that have this job's folder mounted."""
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            mounts = [line.split() for line in (entry / "mountinfo").read_text().splitlines()]
        except OSError:
            continue
        # From the root of its file system, which may be mounted further down, or be a part of one.
        roots = [fields[3] for fields in mounts if fields[4] == "/run/torpor/job"]
        inside = any(str(folder).endswith(root) or root.endswith(str(folder)) for root in roots)
        if inside and entry.name.isdigit():
            found.add(int(entry.name))
    return found


def test_fast_enough(job: Supervised, world: World, images: Path) -> None:
    """A small job's cycle takes a fraction of a second: nothing of ours waits for a clock. The best of some counts."""
    number = 0

    def cycle() -> bool:
        nonlocal number
        number += 1
        folder = images.with_name(f"images-{number}")
        began = time.monotonic()
        info = job.dump(folder, leave_running=True)
        dumped = time.monotonic() - began
        woken = world(f"woken-{number}", like=job)
        restored = woken.restore(folder, info.stdio).seconds
        with woken.client() as client:
            client.shutdown()
        return dumped < FAST and restored < FAST

    eventually(cycle)
    assert records.process_start(job.supervisor) is not None


FAST = 0.5
"""Seconds. What waited for a clock would take as long every time, on an idle machine as on a busy one."""
