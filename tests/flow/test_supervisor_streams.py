"""The job's streams: everything reaches the log and whoever is attached, and nobody who leaves holds the job up."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import eventually
from tests.flow.supervised import Supervised, World, world
from torpor.process.client import Attachment, End

__all__ = ["world"]
pytestmark = pytest.mark.criu

BIG = 3_000_000  # bytes; more than pipes, sockets and the supervisor's backlog hold together


def all_of(streams: Attachment) -> dict[str, bytes]:
    found: dict[str, Any] = {"o": b"", "e": b""}
    for tag, data in streams:
        found[tag] += data
    return found


def test_a_client_that_was_announced_misses_nothing(world: World) -> None:
    job = world().start("sh", "-c", "echo out; echo err >&2; exit 5", await_client=True)
    streams = job.attach()
    assert all_of(streams) == {"o": b"out\n", "e": b"err\n"}
    assert isinstance(streams.end, End)
    assert streams.end.exit_code == 5
    eventually(job.gone)
    assert sorted(job.log.splitlines()) == ["err", "out"]


def test_input_reaches_the_program_and_ends(world: World) -> None:
    job = world().start("cat", stdin="pipe", await_client=True)
    streams = job.attach()
    data = bytes(range(256)) * (BIG // 256)

    def give() -> None:
        streams.write(data)
        streams.end_input()

    giver = threading.Thread(target=give)
    giver.start()
    assert all_of(streams)["o"] == data
    giver.join()
    assert streams.end is not None
    assert streams.end.exit_code == 0


def test_no_input(world: World) -> None:
    job = world().start("cat")
    assert job.end()["exit_code"] == 0


def test_input_that_nobody_reads(world: World) -> None:
    job = world().start("sh", "-c", "exec <&-; echo closed; sleep 1000", stdin="pipe")
    eventually(lambda: "closed" in job.log)
    streams = job.attach()
    streams.write(b"x")
    eventually(lambda: job.info().stdio["stdin"] is None)
    assert job.info().state == "running"


def test_a_slow_client_holds_the_job_up_only_while_it_is_there(world: World) -> None:
    job = world().start("sh", "-c", f"head -c {BIG} /dev/zero; echo done", await_client=True)
    slow = job.attach()
    slow.read()
    blocked = eventually(lambda: stalled(job))
    assert blocked < BIG
    slow.close()
    assert job.end()["exit_code"] == 0
    eventually(job.gone)
    assert len(job.log) == BIG + len("done\n")


def stalled(job: Supervised) -> int:
    """The length of a log that has stopped growing because the writer waits for room in its pipe, else 0."""
    before = (job.folder / "log").stat().st_size
    writers = [process for process in job.tree().processes if process.comm == "head"]
    for process in writers:
        waits = "pipe" in Path(f"/proc/{process.pid}/wchan").read_text()
        if waits and before and (job.folder / "log").stat().st_size == before:
            return before
    return 0


def test_two_clients_see_the_same(world: World) -> None:
    job = world().start("sh", "-c", "read go; seq 1000", stdin="pipe")
    first, second = job.attach(), job.attach()
    second.write(b"go\n")
    assert all_of(first) == all_of(second)
    assert first.end == second.end


def test_a_client_that_comes_after_the_end(world: World) -> None:
    job = world().start("sh", "-c", "(while [ ! -e /run/torpor/job/go ]; do sleep 0.01; done) & exit 6")
    job.end()
    late = job.attach()
    assert all_of(late) == {"o": b"", "e": b""}
    assert late.end is not None
    assert late.end.exit_code == 6
    (job.folder / "go").touch()
    eventually(job.gone)


def test_a_reader_that_left_is_a_broken_pipe(world: World) -> None:
    job = world().start("sh", "-c", "read go; exec seq 100000", stdin="pipe")
    streams = job.attach()
    streams.close_output("o")
    streams.write(b"go\n")
    assert all_of(streams)["o"] == b""
    assert job.end()["signal"] == 13


def test_a_full_disk_costs_log_lines_only(world: World) -> None:
    job = world()
    (job.folder / "log").symlink_to("/dev/full")
    job.start("sh", "-c", "echo lost; exit 8")
    assert job.end()["exit_code"] == 8
