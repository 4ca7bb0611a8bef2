"""Capture: what becomes of a stream's calls, what cannot be captured, how captures end. The statuses are an H200's."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.native.simgpu.kernels import TEXT, function, launch, load, u32, u64
from tests.native.simgpu.program import (
    ILLEGAL_STATE,
    INVALID_VALUE,
    SUCCESS,
    Program,
    Start,
    given,
    out,
    programs_fixture,
)

start = programs_fixture()

UNSUPPORTED, INVALIDATED, MERGE, UNMATCHED, UNJOINED = 900, 901, 902, 903, 904
ISOLATION, IMPLICIT, CAPTURED_EVENT, WRONG_THREAD = 905, 906, 907, 908
GLOBAL, THREAD_LOCAL, RELAXED = 0, 1, 2
LEGACY, PER_THREAD, NON_BLOCKING = 1, 2, 1
EXTERNAL = 1


class Capturing:
    """A program with streams that do not block, of which `begin` captures one."""

    def __init__(self, program: Program) -> None:
        self.program = program
        program.start_up()
        self.memory = program.allocate(64)
        self.streams = [program.number("cuStreamCreate", out(8), NON_BLOCKING) for _ in range(3)]
        self.stream = self.streams[0]
        self.event, self.other_event = (program.number("cuEventCreate", out(8), 0) for _ in range(2))

    def begin(self, mode: int = RELAXED, stream: int = 0) -> None:
        self.program.ok("cuStreamBeginCapture_v2", stream or self.stream, mode)

    def end(self, stream: int = 0) -> tuple[int, int]:
        """The status, and the number of nodes of the graph (-1: no graph)."""
        status, outputs = self.program.call("cuStreamEndCapture", stream or self.stream, out(8))
        graph = int.from_bytes(outputs[0], "little")
        return status, self.program.number("cuGraphGetNodes", graph, None, out(8)) if graph else -1

    def status(self, stream: int = 0) -> int:
        return self.program.number("cuStreamIsCapturing", stream or self.stream, out(4))

    def fill(self, stream: int = 0) -> int:
        return self.program.status("cuMemsetD8Async", self.memory, 1, 8, stream or self.stream)

    def fork(self, stream: int) -> None:
        self.program.ok("cuEventRecord", self.event, self.stream)
        self.program.ok("cuStreamWaitEvent", stream, self.event, 0)

    def join(self, stream: int) -> None:
        self.program.ok("cuEventRecord", self.other_event, stream)
        self.program.ok("cuStreamWaitEvent", self.stream, self.other_event, 0)


@pytest.fixture
def capturing(start: Start) -> Capturing:
    return Capturing(start())


def test_beginnings_and_ends(capturing: Capturing) -> None:
    program = capturing.program
    begin = "cuStreamBeginCapture_v2"
    assert [program.status(begin, stream, RELAXED) for stream in (0, LEGACY)] == [UNSUPPORTED, UNSUPPORTED]
    assert program.status(begin, capturing.stream, 3) == INVALID_VALUE
    assert capturing.end() == (ILLEGAL_STATE, -1)
    capturing.begin()
    assert program.status(begin, capturing.stream, RELAXED) == ILLEGAL_STATE
    assert capturing.status() == 1
    assert capturing.end() == (SUCCESS, 0)
    assert capturing.status() == 0


def test_nothing_runs_until_the_graph_is_launched(capturing: Capturing) -> None:
    program, stream = capturing.program, capturing.stream
    store = function(program, load(program), "store")
    capturing.begin()
    assert capturing.fill() == SUCCESS
    assert launch(program, store, u64(capturing.memory), u32(5), stream=stream) == SUCCESS
    program.ok("cuLaunchHostFunc", stream, {"callback": 3}, 0)
    program.ok("cuStreamWriteValue32_v2", stream, capturing.memory + 12, 9, 0)
    program.ok("cuMemcpyDtoDAsync_v2", capturing.memory + 16, capturing.memory, 16, stream)
    graph = program.number("cuStreamEndCapture", stream, out(8))
    assert program.read(capturing.memory, 32) == bytes(32)
    types = program.ok("cuGraphGetNodes", graph, out(8 * 5), given(u64(5)))[0]
    nodes = [int.from_bytes(types[at : at + 8], "little") for at in range(0, 40, 8)]
    assert [program.number("cuGraphNodeGetType", node, out(4)) for node in nodes] == [2, 0, 3, 12, 1]
    launched = program.number("cuGraphInstantiateWithFlags", out(8), graph, 0)
    for _time in range(2):
        program.ok("cuGraphLaunch", launched, stream)
    program.ok("cuStreamSynchronize", stream)
    once = u32(5) + b"\1" * 4 + bytes(4) + u32(9)
    assert program.read(capturing.memory, 32) == once + once
    assert program.python("called") == [3, 3]


def test_streams_join_by_events_and_have_to_come_back(capturing: Capturing) -> None:
    program, other = capturing.program, capturing.streams[1]
    capturing.begin()
    capturing.fork(other)
    assert capturing.status(other) == 1
    assert capturing.fill(other) == SUCCESS
    capturing.join(other)
    assert capturing.end() == (SUCCESS, 1)
    assert capturing.status(other) == 0
    assert program.status("cuEventQuery", capturing.event) == INVALID_VALUE  # it means nothing any more
    capturing.begin()
    assert capturing.fill() == SUCCESS
    capturing.fork(other)  # without work of its own it need not come back
    assert capturing.end() == (SUCCESS, 1)
    capturing.begin()
    capturing.fork(other)
    assert capturing.fill(other) == SUCCESS
    assert capturing.end() == (UNJOINED, -1)
    assert capturing.status(other) == 0
    capturing.begin()
    capturing.fork(other)
    assert capturing.end(other) == (UNMATCHED, -1)
    assert capturing.end() == (INVALIDATED, -1)


def test_a_stream_that_is_gone_has_to_have_come_back(capturing: Capturing) -> None:
    program = capturing.program
    for joined, end in ((True, (SUCCESS, 1)), (False, (UNJOINED, -1))):
        other = program.number("cuStreamCreate", out(8), NON_BLOCKING)
        capturing.begin()
        capturing.fork(other)
        assert capturing.fill(other) == SUCCESS
        if joined:
            capturing.join(other)
        program.ok("cuStreamDestroy_v2", other)
        assert capturing.end() == end


def test_the_shape_of_a_fork(capturing: Capturing) -> None:
    program, (stream, other, _) = capturing.program, capturing.streams
    capturing.begin()
    capturing.fill()
    capturing.fork(other)
    capturing.fill(other)
    capturing.fill(stream)
    capturing.join(other)
    capturing.fill()
    graph = program.number("cuStreamEndCapture", stream, out(8))
    assert program.number("cuGraphGetEdges", graph, None, None, out(8)) == 4
    assert program.number("cuGraphGetRootNodes", graph, None, out(8)) == 1


Call = Callable[[Capturing], int]
UNSAFE: dict[str, Call] = {
    "alloc": lambda c: c.program.status("cuMemAlloc_v2", out(8), 512),
    "query an event": lambda c: c.program.status("cuEventQuery", c.other_event),
    "wait for an event": lambda c: c.program.status("cuEventSynchronize", c.other_event),
    "query a stream": lambda c: c.program.status("cuStreamQuery", c.streams[1]),
    "wait for a stream": lambda c: c.program.status("cuStreamSynchronize", c.streams[1]),
    "wait for the legacy stream": lambda c: c.program.status("cuStreamSynchronize", 0),
    "pinned": lambda c: c.program.status("cuMemHostAlloc", out(8), 512, 0),
    "limit": lambda c: c.program.status("cuCtxSetLimit", 1, 1 << 20),
}
SAFE: dict[str, Call] = {
    "fill": lambda c: c.program.status("cuMemsetD8_v2", c.memory, 1, 8),
    "module": lambda c: c.program.status("cuModuleLoadData", out(8), given(TEXT)),
    "event": lambda c: c.program.status("cuEventCreate", out(8), 0),
    "stream": lambda c: c.program.status("cuStreamCreate", out(8), NON_BLOCKING),
    "legacy": lambda c: c.fill(LEGACY),
}
NEVER: dict[str, tuple[int, Call]] = {
    "query": (UNSUPPORTED, lambda c: c.program.status("cuStreamQuery", c.stream)),
    "wait": (UNSUPPORTED, lambda c: c.program.status("cuStreamSynchronize", c.stream)),
    "flags": (UNSUPPORTED, lambda c: c.program.status("cuStreamGetFlags", c.stream, out(4))),
    "context": (UNSUPPORTED, lambda c: c.program.status("cuCtxSynchronize")),
    "callback": (UNSUPPORTED, lambda c: c.program.status("cuStreamAddCallback", c.stream, {"callback": 1}, 0, 0)),
    "uncaptured work": (ISOLATION, lambda c: c.program.status("cuStreamWaitEvent", c.stream, c.other_event, 0)),
}


@pytest.mark.parametrize("mode", [GLOBAL, THREAD_LOCAL, RELAXED])
@pytest.mark.parametrize("call", [*UNSAFE, *SAFE])
def test_what_the_mode_decides(capturing: Capturing, mode: int, call: str) -> None:
    forbidden = call in UNSAFE and mode != RELAXED
    capturing.begin(mode)
    assert (UNSAFE | SAFE)[call](capturing) == (UNSUPPORTED if forbidden else SUCCESS)
    assert capturing.status() == (2 if forbidden else 1)
    assert capturing.end() == ((INVALIDATED, -1) if forbidden else (SUCCESS, 0))


@pytest.mark.parametrize("call", NEVER)
def test_what_is_never_captured(capturing: Capturing, call: str) -> None:
    capturing.program.ok("cuEventRecord", capturing.other_event, capturing.streams[2])
    capturing.begin()
    status, asked = NEVER[call]
    assert asked(capturing) == status
    assert capturing.fill() == INVALIDATED
    assert capturing.end() == (INVALIDATED, -1)
    assert capturing.fill() == SUCCESS


def test_captured_events_stand_for_no_time(capturing: Capturing) -> None:
    program = capturing.program
    for call in ("cuEventQuery", "cuEventSynchronize"):
        capturing.begin()
        program.ok("cuEventRecord", capturing.event, capturing.stream)
        assert program.status(call, capturing.event) == CAPTURED_EVENT
        assert capturing.end() == (INVALIDATED, -1)
    capturing.begin()
    program.ok("cuEventRecord", capturing.event, capturing.stream)
    assert program.status("cuEventElapsedTime", out(4), capturing.event, capturing.event) == CAPTURED_EVENT
    assert capturing.end() == (SUCCESS, 0)
    program.ok("cuEventRecord", capturing.event, capturing.stream)
    program.ok("cuEventSynchronize", capturing.event)


def test_events_of_the_world_outside(capturing: Capturing) -> None:
    program, stream = capturing.program, capturing.stream
    capturing.begin()
    program.ok("cuStreamWaitEvent", stream, capturing.event, 0)  # never recorded
    assert capturing.end() == (SUCCESS, 0)
    capturing.begin()
    program.ok("cuStreamWaitEvent", stream, capturing.event, EXTERNAL)
    program.ok("cuEventRecordWithFlags", capturing.event, stream, EXTERNAL)
    assert capturing.end() == (SUCCESS, 2)
    assert program.status("cuStreamWaitEvent", stream, capturing.event, EXTERNAL) == ILLEGAL_STATE
    assert program.status("cuEventRecordWithFlags", capturing.event, stream, EXTERNAL) == ILLEGAL_STATE


def test_captures_do_not_mix(capturing: Capturing) -> None:
    program, (first, second, _) = capturing.program, capturing.streams
    capturing.begin()
    capturing.begin(stream=second)
    program.ok("cuEventRecord", capturing.event, second)
    assert program.status("cuStreamWaitEvent", first, capturing.event, 0) == MERGE
    assert [capturing.end(stream) for stream in (first, second)] == [(INVALIDATED, -1)] * 2


def test_the_legacy_stream_must_not_wait_for_a_capture(capturing: Capturing) -> None:
    program = capturing.program
    blocking = program.number("cuStreamCreate", out(8), 0)
    calls: list[Call] = [
        lambda c: c.fill(LEGACY),
        lambda c: c.program.status("cuStreamQuery", LEGACY),
        lambda c: c.program.status("cuMemsetD8_v2", c.memory, 1, 8),
    ]
    for call in calls:
        capturing.begin(stream=blocking)
        assert call(capturing) == IMPLICIT
        assert capturing.end(blocking) == (INVALIDATED, -1)
    capturing.begin()
    program.ok("cuEventRecord", capturing.event, capturing.stream)
    assert program.status("cuStreamWaitEvent", LEGACY, capturing.event, 0) == IMPLICIT
    assert capturing.end() == (INVALIDATED, -1)


def test_a_capture_ends_where_it_began(capturing: Capturing) -> None:
    program = capturing.program
    elsewhere = (
        "(lambda done: [t := __import__('threading').Thread(target=lambda: (cuda().cuCtxSetCurrent("
        "ctypes.c_uint64({})), done.append(cuda().cuStreamEndCapture(ctypes.c_uint64({}), "
        "ctypes.create_string_buffer(8))))), t.start(), t.join(), done][-1])([])"
    )
    context = program.number("cuCtxGetCurrent", out(8))
    for mode, status in ((GLOBAL, WRONG_THREAD), (THREAD_LOCAL, WRONG_THREAD), (RELAXED, SUCCESS)):
        capturing.begin(mode)
        assert program.python(elsewhere.format(context, capturing.stream)) == [status]
        assert capturing.end() == (ILLEGAL_STATE, -1)  # over in any case
