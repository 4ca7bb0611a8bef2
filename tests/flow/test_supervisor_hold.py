"""Descriptors of blocks in the supervisor's safe keeping outlive whoever gave them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import eventually
from tests.flow.supervised import Supervised, World, world
from torpor.process import criu, wire

__all__ = ["world"]
pytestmark = pytest.mark.criu

COUNT = 2 * wire.MAX_FDS + 10


@pytest.fixture
def blocks() -> Iterator[list[int]]:
    fds = [os.memfd_create(f"block-{number}") for number in range(COUNT)]
    for number, fd in enumerate(fds):
        os.write(fd, b"%d" % number)
    yield fds
    wire.close_all(fds)


@pytest.fixture
def job(world: World) -> Supervised:
    return world().start("sleep", "1000")


def records(count: int) -> list[dict[str, int]]:
    return [{"address": number << 21, "size": 1 << 21} for number in range(count)]


def in_hold(pid: int) -> int:
    """How many blocks' descriptors a process has."""
    found = 0
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found += "memfd:block-" in os.readlink(fd)  # noqa: PTH115  the target is no path
        except FileNotFoundError:
            continue
    return found


def test_held_fetched_and_dropped(job: Supervised, blocks: list[int]) -> None:
    with job.client() as client:
        client.hold(records(COUNT)[:100], blocks[:100])
        client.hold(records(COUNT)[100:], blocks[100:])
        assert client.info().held == COUNT
    for _ in range(2):  # what was fetched stays in the hold
        with job.client() as client:
            found, fds = client.fetch()
        try:
            assert found == records(COUNT)
            assert [os.pread(fd, 8, 0) for fd in fds] == [b"%d" % number for number in range(COUNT)]
        finally:
            wire.close_all(fds)
    assert in_hold(job.supervisor) == COUNT
    with job.client() as client:
        client.drop()
        assert client.fetch() == ([], [])
        assert client.info().held == 0
    assert in_hold(job.supervisor) == 0


def test_they_outlive_a_keeper_that_is_killed(job: Supervised) -> None:
    program = (
        "import os, time\nfrom torpor.process.client import SupervisorClient\n"
        f"client = SupervisorClient({str(job.folder)!r})\n"
        "fd = os.memfd_create('block-0'); os.write(fd, b'alive'); client.hold([{'size': 5}], [fd])\n"
        "print('held', flush=True); time.sleep(1000)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as keeper:
        assert keeper.stdout is not None
        assert keeper.stdout.readline() == b"held\n"
        keeper.send_signal(signal.SIGKILL)
    with job.client() as client:
        found, [fd] = client.fetch()
    assert found == [{"size": 5}]
    assert os.pread(fd, 8, 0) == b"alive"
    os.close(fd)


def test_neither_the_job_nor_criu_gets_them(world: World, blocks: list[int], tmp_path: Path) -> None:
    job = world().start("sh", "-c", "while :; do sleep 0.01; done")
    with job.client() as client:
        client.hold(records(COUNT), blocks)
    images = tmp_path / "images"
    images.mkdir()
    with criu.Dump(job.folder) as dump:
        dump.start(images)
        dump.wait_written(60)
        found = job.tree()
        assert {process.comm for process in found.strays} >= {"post-dump"}
        assert {in_hold(process.pid) for process in (*found.processes, *found.strays)} == {0}
        dump.roll_back("seen")
        dump.finish()
    assert in_hold(job.supervisor) == COUNT


def test_more_than_a_program_may_usually_open(job: Supervised) -> None:
    """The supervisor raises its own limit as far as it may."""
    limits = Path(f"/proc/{job.supervisor}/limits").read_text()
    [line] = [line for line in limits.splitlines() if line.startswith("Max open files")]
    soft, hard = line.split()[3:5]
    assert int(soft) == int(hard) >= 4096


def test_the_hold_ends_with_the_job(world: World, blocks: list[int]) -> None:
    job = world().start("sleep", "1000")
    with job.client() as client:
        client.hold(records(1), blocks[:1])
        client.shutdown()
    eventually(job.gone)
