"""The software GPU and real CRIU: checkpointed, dumped, killed, and brought back as several copies."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY, eventually
from tests.native.simgpu.program import GIB, SUCCESS, Program, Start, environment, given, out, programs_fixture
from torpor.process.criu import find_criu

pytestmark = pytest.mark.criu
start = programs_fixture()

CHECKPOINTED = 2


@dataclass(frozen=True)
class State:
    """What the counting job shows."""

    pid: int
    counts: tuple[int, int]
    uuid: str


def shown(folder: Path, pid: int) -> State | None:
    """The state of the job that the host knows as `pid`."""
    file = folder / f"{Path(f'/proc/{pid}/ns/pid').stat().st_ino}.state"
    if not file.exists():
        return None
    own, first, second, uuid = file.read_text().split()
    return State(int(own), (int(first), int(second)), uuid)


def beyond(folder: Path, pid: int, count: int) -> State:
    """Waits until that job has counted further."""
    state = eventually(lambda: (s := shown(folder, pid)) and s.counts[0] > count and s)
    assert isinstance(state, State)
    assert state.counts[0] == state.counts[1]
    return state


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "job"
    made.mkdir()
    return made


@pytest.fixture
def job(tmp_path: Path, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    running = subprocess.Popen(
        [sys.executable, str(REPOSITORY / "tests/native/simgpu/counting.py"), str(folder)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment(tmp_path),
        start_new_session=True,
    )
    yield running
    running.kill()
    running.wait()


def criu(verb: str, images: Path, *args: str) -> list[str]:
    """A CRIU command; output goes to a log beside the images."""
    return [*find_criu().argv, verb, "-D", str(images), "-v2", "-o", f"{verb}.log", "--no-default-config", *args]


class Copy:
    """The job, restored in PID and mount namespaces of its own."""

    def __init__(self, images: Path) -> None:
        command = [*criu("restore", images, "-d"), "--pidfile", f"pid-{id(self)}"]
        self.namespace = subprocess.Popen(
            [
                "unshare",
                "--pid",
                "--fork",
                "--kill-child",
                "--mount-proc",
                "sh",
                "-c",
                '"$@" && exec sleep infinity',
                "sh",
                *command,
            ],
            stdin=subprocess.DEVNULL,
        )
        pidfile = images / f"pid-{id(self)}"
        eventually(
            lambda: (pidfile.exists() and pidfile.read_text().strip()) or self.namespace.poll() is not None,
        )
        assert self.namespace.poll() is None, (images / "restore.log").read_text()
        self.inner = int(pidfile.read_text())
        self.pid = eventually(
            lambda: next((pid for pid in descendants(self.namespace.pid) if own_pid(pid) == self.inner), 0)
        )

    def end(self) -> None:
        self.namespace.kill()
        self.namespace.wait()


def descendants(pid: int) -> Iterator[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return  # it ended, as CRIU does after a restore
    for child in children:
        yield int(child)
        yield from descendants(int(child))


def own_pid(pid: int) -> int:
    """The pid as the process itself knows it, 0 when it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(next((line for line in lines if line.startswith("NSpid:")), "0").split()[-1])


def step(keeper: Program, name: str, pid: int, arguments: object = None) -> None:
    assert keeper.status(f"cuCheckpointProcess{name}", pid, arguments) == SUCCESS


def test_copies_count_on_where_it_stood(
    start: Start, tmp_path: Path, folder: Path, job: subprocess.Popen[bytes]
) -> None:
    keeper = start()
    keeper.start_up()
    everything = 16 * GIB
    before = beyond(folder, job.pid, 5)
    step(keeper, "Lock", job.pid)
    step(keeper, "Checkpoint", job.pid)
    assert keeper.free_memory() == everything
    stopped = shown(folder, job.pid)
    assert stopped is not None
    images = tmp_path / "images"
    images.mkdir()
    dumped = subprocess.run(criu("dump", images, "-t", str(job.pid)), check=False)
    assert dumped.returncode == 0, (images / "dump.log").read_text()
    assert job.wait() == -9  # CRIU ends what it dumped

    copies = []
    try:
        for _ in range(2):
            copies.append(Copy(images))
        for copy in copies:
            assert keeper.number("cuCheckpointProcessGetState", copy.pid, out(4)) == CHECKPOINTED
            step(keeper, "Restore", copy.pid)
        assert keeper.free_memory() == everything - 2 * (10 << 20)
        for copy in copies:
            step(keeper, "Unlock", copy.pid)
        first, second = (beyond(folder, copy.pid, stopped.counts[0]) for copy in copies)
        assert first.pid == second.pid == before.pid
        # Copies are independent: one is stopped again, the other goes on.
        step(keeper, "Lock", copies[0].pid)
        # What it shows can lag: the step whose last driver call was over may be shown late, and no other.
        standing = shown(folder, copies[0].pid)
        assert standing is not None
        for more in (50, 100):
            beyond(folder, copies[1].pid, second.counts[0] + more)
            now = shown(folder, copies[0].pid)
            assert now is not None
            assert standing.counts[0] <= now.counts[0] <= standing.counts[0] + 1
        step(keeper, "Unlock", copies[0].pid)
    finally:
        for copy in copies:
            copy.end()
    eventually(lambda: keeper.free_memory() == everything)


def test_a_copy_wakes_on_another_gpu(start: Start, tmp_path: Path, folder: Path, job: subprocess.Popen[bytes]) -> None:
    other = "00000000000040008000000000000042"
    keeper, later = start(), start(TORPOR_SIM_UUID=other)
    keeper.start_up()
    later.start_up()
    before = beyond(folder, job.pid, 3)
    step(keeper, "Lock", job.pid)
    step(keeper, "Checkpoint", job.pid)
    images = tmp_path / "images"
    images.mkdir()
    subprocess.run(criu("dump", images, "-t", str(job.pid)), check=True)
    job.wait()
    copy = Copy(images)
    try:
        place = later.place(bytes.fromhex(before.uuid + other))
        arguments = given(place.to_bytes(8, "little") + (1).to_bytes(4, "little") + bytes(52))
        assert later.status("cuCheckpointProcessRestore", copy.pid, None) != SUCCESS  # the old GPU is not here
        step(later, "Restore", copy.pid, arguments)
        step(later, "Unlock", copy.pid)
        # The step in which it was stopped may have asked for the UUID before; the next one has asked after.
        eventually(lambda: beyond(folder, copy.pid, before.counts[0]).uuid == other)
    finally:
        copy.end()
