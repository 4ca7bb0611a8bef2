"""Events that processes share by IPC handle: the driver's on the software GPU, and Torpor's in front of them."""

from __future__ import annotations

import os
import resource
import select
import signal
import socket
import struct
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.conftest import eventually
from tests.native.arena.harness import libraries
from tests.native.simgpu.program import (
    INVALID_CONTEXT,
    INVALID_HANDLE,
    INVALID_VALUE,
    MIB,
    NOT_READY,
    SUCCESS,
    Program,
    Start,
    by_value,
    out,
    programs_fixture,
)

start = programs_fixture()

DISABLE_TIMING, INTERPROCESS = 2, 4

Begin = Callable[[], Program]


def torpor_environment(folder: Path) -> dict[str, str]:
    interposer, driver = libraries()
    (folder / "ctl").mkdir(exist_ok=True)
    return {"LD_PRELOAD": str(interposer), "TORPOR_REAL_LIBCUDA": str(driver), "TORPOR_JOB_DIR": str(folder)}


def begun(start: Start, **env: str) -> Program:
    program = start(**env)
    program.start_up()
    return program


@pytest.fixture(params=["driver", "torpor"])
def begin(request: pytest.FixtureRequest, start: Start, tmp_path: Path) -> Begin:
    """Starts processes with the driver's events, or with Torpor's in front of them."""
    env = torpor_environment(tmp_path) if request.param == "torpor" else {}
    return lambda: begun(start, **env)


@pytest.fixture
def peers(begin: Begin) -> tuple[Program, Program]:
    """An owner and another process."""
    return begin(), begin()


@pytest.fixture
def torpors(start: Start, tmp_path: Path) -> tuple[Program, Program]:
    env = torpor_environment(tmp_path)
    return begun(start, **env), begun(start, **env)


def made(owner: Program) -> tuple[int, dict[str, str]]:
    """An event and its handle."""
    event = owner.number("cuEventCreate", out(8), INTERPROCESS | DISABLE_TIMING)
    return event, by_value(owner.ok("cuIpcGetEventHandle", out(64), event)[0])


def opened(program: Program, handle: dict[str, str]) -> int:
    return program.number("cuIpcOpenEventHandle", out(8), handle)


def event_pair(owner: Program, other: Program) -> tuple[int, int]:
    event, handle = made(owner)
    return event, opened(other, handle)


def let_go(program: Program, flag: int) -> None:
    program.poke(flag, struct.pack("<I", 1))


def blocked_stream(program: Program) -> tuple[int, int]:
    """A stream that waits, and the address where a 1 lets it go on."""
    flag = program.number("cuMemHostAlloc", out(8), 4096, 0)
    stream = program.number("cuStreamCreate", out(8), 1)
    program.ok("cuStreamWaitValue32_v2", stream, flag, 1, 0)
    return stream, flag


def test_an_event_is_recorded_here_and_awaited_there(peers: tuple[Program, Program]) -> None:
    owner, other = peers
    event, there = event_pair(owner, other)
    assert other.status("cuEventQuery", there) == SUCCESS  # never recorded
    stream, flag = blocked_stream(owner)
    owner.ok("cuEventRecord", event, stream)
    assert owner.status("cuEventQuery", event) == other.status("cuEventQuery", there) == NOT_READY
    theirs = other.number("cuStreamCreate", out(8), 1)
    mark = other.number("cuMemHostAlloc", out(8), 4096, 0)
    other.ok("cuStreamWaitEvent", theirs, there, 0)
    other.ok("cuMemsetD8Async", mark, 9, 1, theirs)
    assert other.status("cuStreamQuery", theirs) == NOT_READY
    other.begin("cuEventSynchronize", there)
    let_go(owner, flag)
    assert other.finish() == SUCCESS
    other.ok("cuStreamSynchronize", theirs)
    assert other.python(f"peek({mark}, 1)") == "09"
    assert owner.status("cuEventQuery", event) == SUCCESS


def test_a_limit_on_files_is_none_on_events(begin: Begin) -> None:
    owner = begin()
    owner.python("(signal := __import__('signal')).signal(signal.SIGXFSZ, 0) and None")  # Python ignores it
    resource.prlimit(owner.pid, resource.RLIMIT_FSIZE, (65536, resource.RLIM_INFINITY))
    assert owner.number("cuEventCreate", out(8), INTERPROCESS | DISABLE_TIMING)
    assert owner.python("[len(signal.sigpending()), len(signal.pthread_sigmask(signal.SIG_BLOCK, []))]") == [0, 0]


def test_an_event_is_recorded_by_the_process_that_opened_it(peers: tuple[Program, Program]) -> None:
    owner, other = peers
    event, there = event_pair(owner, other)
    stream, flag = blocked_stream(other)
    other.ok("cuEventRecord", there, stream)
    assert owner.status("cuEventQuery", event) == NOT_READY
    let_go(other, flag)
    owner.ok("cuEventSynchronize", event)


def test_a_stream_waits_for_what_the_other_side_recorded(peers: tuple[Program, Program]) -> None:
    """The process that made the event waits for the one that opened it, and they take turns."""
    owner, other = peers
    event, there = event_pair(owner, other)
    mine = owner.number("cuStreamCreate", out(8), 1)
    for turn in (1, 2):
        theirs, flag = blocked_stream(other)
        other.ok("cuEventRecord", there, theirs)
        owner.ok("cuStreamWaitEvent", mine, event, 0)
        assert owner.status("cuStreamQuery", mine) == NOT_READY
        owner.ok("cuEventRecord", event, mine)
        assert other.status("cuEventQuery", there) == NOT_READY
        other.ok("cuStreamWaitEvent", 0, there, 0)
        let_go(other, flag)
        other.ok("cuStreamSynchronize", 0)
        assert owner.status("cuEventQuery", event) == SUCCESS, turn


def test_a_wait_is_for_the_recording_that_was_made_before_it(peers: tuple[Program, Program]) -> None:
    owner, other = peers
    event, there = event_pair(owner, other)
    first, first_flag = blocked_stream(owner)
    owner.ok("cuEventRecord", event, first)
    theirs = other.number("cuStreamCreate", out(8), 1)
    other.ok("cuStreamWaitEvent", theirs, there, 0)
    second, second_flag = blocked_stream(owner)
    owner.ok("cuEventRecord", event, second)
    later = other.number("cuStreamCreate", out(8), 1)
    other.ok("cuStreamWaitEvent", later, there, 0)
    let_go(owner, first_flag)
    other.ok("cuStreamSynchronize", theirs)
    assert other.status("cuStreamQuery", later) == other.status("cuEventQuery", there) == NOT_READY
    let_go(owner, second_flag)
    other.ok("cuStreamSynchronize", later)


def test_nobody_waits_for_a_process_that_died(peers: tuple[Program, Program]) -> None:
    owner, other = peers
    event, there = event_pair(owner, other)
    stream, _flag = blocked_stream(owner)
    owner.ok("cuEventRecord", event, stream)
    other.begin("cuEventSynchronize", there)
    owner.kill()
    assert other.finish() == SUCCESS
    eventually(lambda: other.status("cuEventQuery", there) == SUCCESS)


def test_events_that_cannot_be_shared(peers: tuple[Program, Program]) -> None:
    owner, other = peers
    plain = owner.number("cuEventCreate", out(8), DISABLE_TIMING)
    assert owner.status("cuIpcGetEventHandle", out(64), plain) == INVALID_HANDLE
    assert owner.status("cuEventCreate", out(8), INTERPROCESS) == INVALID_VALUE
    event = owner.number("cuEventCreate", out(8), INTERPROCESS | DISABLE_TIMING)
    handle = by_value(owner.ok("cuIpcGetEventHandle", out(64), event)[0])
    assert owner.status("cuIpcOpenEventHandle", out(8), handle) == INVALID_CONTEXT
    assert other.status("cuIpcOpenEventHandle", out(8), by_value(bytes(64))) == INVALID_VALUE
    there = other.number("cuIpcOpenEventHandle", out(8), handle)
    assert other.status("cuEventElapsedTime", out(4), there, there) == INVALID_HANDLE
    owner.ok("cuEventDestroy_v2", event)
    other.ok("cuEventDestroy_v2", there)
    assert other.status("cuIpcOpenEventHandle", out(8), handle) == INVALID_HANDLE


def test_a_shared_event_survives_a_checkpoint_as_the_process_own(start: Start) -> None:
    owner, other = begun(start), begun(start)
    event, there = event_pair(owner, other)
    owner.ok("cuEventRecord", event, 0)
    for step in ("Lock", "Checkpoint"):
        other.ok(f"cuCheckpointProcess{step}", owner.pid, None)
    assert not any("torpor-simgpu-event" in name for name in owner.python("descriptors()").values())
    for step in ("Restore", "Unlock"):
        other.ok(f"cuCheckpointProcess{step}", owner.pid, None)
    assert owner.status("cuEventQuery", event) == SUCCESS
    stream, flag = blocked_stream(owner)
    owner.ok("cuEventRecord", event, stream)
    assert other.status("cuEventQuery", there) == SUCCESS
    let_go(owner, flag)
    owner.ok("cuEventSynchronize", event)


def test_two_events_of_one_handle_are_one(peers: tuple[Program, Program]) -> None:
    owner, other = peers
    _event, handle = made(owner)
    first, second = opened(other, handle), opened(other, handle)
    for recorded, awaited in ((first, second), (second, first)):
        stream, flag = blocked_stream(other)
        other.ok("cuEventRecord", recorded, stream)
        assert other.status("cuEventQuery", awaited) == NOT_READY
        waiting = other.number("cuStreamCreate", out(8), 1)
        other.ok("cuStreamWaitEvent", waiting, awaited, 0)
        assert other.status("cuStreamQuery", waiting) == NOT_READY
        other.begin("cuEventSynchronize", awaited)
        let_go(other, flag)
        assert other.finish() == SUCCESS
        other.ok("cuStreamSynchronize", waiting)
    other.ok("cuEventDestroy_v2", first)
    stream, flag = blocked_stream(other)
    other.ok("cuEventRecord", second, stream)
    assert owner.status("cuEventQuery", _event) == NOT_READY
    let_go(other, flag)
    owner.ok("cuEventSynchronize", _event)


def test_those_who_opened_it_go_on_when_its_maker_has_ended(begin: Begin) -> None:
    owner, first, second = begin(), begin(), begin()
    _event, handle = made(owner)
    here, there = opened(first, handle), opened(second, handle)
    owner.kill()
    for recorder, recorded, waiter, awaited in ((first, here, second, there), (second, there, first, here)):
        stream, flag = blocked_stream(recorder)
        recorder.ok("cuEventRecord", recorded, stream)
        assert waiter.status("cuEventQuery", awaited) == NOT_READY
        waiting = waiter.number("cuStreamCreate", out(8), 1)
        waiter.ok("cuStreamWaitEvent", waiting, awaited, 0)
        assert waiter.status("cuStreamQuery", waiting) == NOT_READY
        let_go(recorder, flag)
        waiter.ok("cuEventSynchronize", awaited)
        waiter.ok("cuStreamSynchronize", waiting)


@pytest.mark.parametrize("by_other", [True, False])
def test_recordings_are_done_in_their_order(peers: tuple[Program, Program], by_other: bool) -> None:
    """Whoever makes them: the stream of the second waits for the first. Seen on an H200 with driver 580.159."""
    owner, other = peers
    event, there = event_pair(owner, other)
    for first, its, second, and_its in ((owner, event, other, there), (other, there, owner, event)):
        stream, flag = blocked_stream(first)
        first.ok("cuEventRecord", its, stream)
        by, recorded = (second, and_its) if by_other else (first, its)
        behind = by.number("cuStreamCreate", out(8), 1)
        by.ok("cuEventRecord", recorded, behind)
        waiting = first.number("cuStreamCreate", out(8), 1)
        first.ok("cuStreamWaitEvent", waiting, its, 0)
        assert by.status("cuStreamQuery", behind) == first.status("cuStreamQuery", waiting) == NOT_READY
        assert first.status("cuEventQuery", its) == second.status("cuEventQuery", and_its) == NOT_READY
        let_go(first, flag)
        by.ok("cuStreamSynchronize", behind)
        first.ok("cuStreamSynchronize", waiting)
        first.ok("cuEventSynchronize", its)
        assert first.status("cuEventQuery", its) == second.status("cuEventQuery", and_its) == SUCCESS


def test_nobody_records_behind_a_process_that_died(peers: tuple[Program, Program]) -> None:
    owner, other = peers
    event, there = event_pair(owner, other)
    stream, _flag = blocked_stream(other)
    other.ok("cuEventRecord", there, stream)
    behind = owner.number("cuStreamCreate", out(8), 1)
    owner.ok("cuEventRecord", event, behind)
    assert owner.status("cuStreamQuery", behind) == NOT_READY
    other.kill()
    owner.ok("cuStreamSynchronize", behind)
    owner.ok("cuEventSynchronize", event)


def test_recording_takes_nobody_elses_answer(peers: tuple[Program, Program]) -> None:
    owner, other = peers
    event, there = event_pair(owner, other)
    stream, flag = blocked_stream(other)
    os.kill(owner.pid, signal.SIGSTOP)
    try:
        other.begin("cuEventRecord", there, stream)
        assert other.process.stdout is not None
        assert select.select([other.process.stdout], [], [], 100)[0]
        assert other.finish() == SUCCESS
    finally:
        os.kill(owner.pid, signal.SIGCONT)
    assert owner.status("cuEventQuery", event) == NOT_READY
    let_go(other, flag)
    owner.ok("cuEventSynchronize", event)


def test_a_recording_costs_the_same_however_many_are_under_way(torpors: tuple[Program, Program]) -> None:
    owner, other = torpors
    event, there = event_pair(owner, other)
    stream, flag = blocked_stream(owner)

    def cost(count: int) -> float:
        """Seconds of the process's time for that many recordings."""
        calls = f"[cuda().cuEventRecord(*(ctypes.c_uint64(a) for a in ({event}, {stream}))) for _ in range({count})]"
        clock = "__import__('time').process_time()"
        before, results, after = owner.python(f"[{clock}, sum({calls}), {clock}]")
        assert results == 0
        return float(after - before)

    first = min(cost(100) for _ in range(3))
    cost(5000)
    assert min(cost(100) for _ in range(5)) < 10 * first
    assert other.status("cuEventQuery", there) == NOT_READY
    let_go(owner, flag)
    other.ok("cuEventSynchronize", there)


def test_an_ended_process_that_nobody_waited_for_has_ended(torpors: tuple[Program, Program]) -> None:
    owner, other = torpors
    event, there = event_pair(owner, other)
    stream, _flag = blocked_stream(owner)
    owner.ok("cuEventRecord", event, stream)
    owner.process.kill()
    stat = Path(f"/proc/{owner.pid}/stat")
    eventually(lambda: stat.read_text().rpartition(")")[2].split()[0] == "Z")

    eventually(lambda: other.status("cuEventQuery", there) == SUCCESS)  # its other threads take a moment longer

    def seconds() -> float:
        begun = time.monotonic()
        assert other.status("cuEventQuery", there) == SUCCESS
        return time.monotonic() - begun

    eventually(lambda: seconds() < 0.1)


def connected(owner: Program, folder: Path) -> socket.socket:
    """A peer that says nothing."""
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    peer.connect(str(folder / "ctl" / f"{owner.pid}.peer"))
    return peer


@pytest.mark.parametrize("count", [4, 40])
def test_a_peer_that_says_nothing_is_in_nobodys_way(
    torpors: tuple[Program, Program], tmp_path: Path, count: int
) -> None:
    owner, other = torpors
    _event, handle = made(owner)

    def opens_beside_it() -> bool:
        with ExitStack() as silent:
            peers = [silent.enter_context(connected(owner, tmp_path)) for _ in range(count)]
            opened(other, handle)
            peers[-1].setblocking(False)
            with suppress(BlockingIOError):
                return peers[-1].recv(1) != b""
            return True  # it has not been given up

    eventually(opens_beside_it)


def test_processes_open_each_others_memory_at_once(torpors: tuple[Program, Program]) -> None:
    for _time in range(50):
        handles = [by_value(each.ok("cuIpcGetMemHandle", out(64), each.allocate(3 * MIB))[0]) for each in torpors]
        for each, handle in zip(torpors, reversed(handles), strict=True):
            each.begin("cuIpcOpenMemHandle_v2", out(8), handle, 1)
        assert [each.finish() for each in torpors] == [SUCCESS, SUCCESS]
