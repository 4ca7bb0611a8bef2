"""Calls that change nothing are left out, and no others: waits, records that nobody looks at, what is set already."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import eventually
from tests.native.arena.harness import HELLO, MIB, NOT_SUPPORTED, SUCCESS, Control, Program, environment, out

DEADLINE, NOT_READY, FUTEX = -3, 600, "202"
INVALID_CONTEXT, CONTEXT_IS_DESTROYED = 201, 709


class Events:
    """A program with two streams and an event, and a driver that can be made to take no more work."""

    def __init__(self, folder: Path, level: str = "always") -> None:
        self.held = folder / "held"
        fault = f"cuMemsetD16Async@1=hang:{self.held}"
        self.program = Program(folder, environment, TORPOR_VM=level, TORPOR_SIM_FAULT=fault)
        self.context = self.program.start_up()
        self.memory = self.program.allocate(MIB)
        self.one, self.two = (self.program.number("cuStreamCreate", out(8), 1) for _ in range(2))
        self.event = self.program.number("cuEventCreate", out(8), 2)
        self.control: Control = self.program.control()
        for stream in (self.one, self.two, 0):  # the first call of its kind goes straight
            self.record(stream)
            self.wait(stream)
        self.program.ok("cuMemsetD8Async", self.memory, 1, 64, 0)
        self.program.ok("cuCtxSynchronize")
        self.before = self.counts()

    def record(self, stream: int) -> None:
        self.program.ok("cuEventRecord", self.event, stream)

    def wait(self, stream: int) -> None:
        self.program.ok("cuStreamWaitEvent", stream, self.event, 0)

    def counts(self) -> dict[str, int]:
        return dict(self.control.json(HELLO)["vm"])

    def since(self, kind: str) -> int:
        return self.counts()[f"dropped_{kind}"] - self.before[f"dropped_{kind}"]

    def hold(self) -> None:
        """From here on everything that is deferred stays in the queue."""
        self.program.ok("cuMemsetD16Async", self.memory, 2, 8, 0)

    def end(self) -> None:
        self.held.touch()
        assert self.program.call("cuCtxSynchronize")[0] == SUCCESS
        self.control.close()
        self.program.end()


@pytest.fixture
def events(tmp_path: Path) -> Iterator[Events]:
    running = Events(tmp_path)
    yield running
    running.end()


def test_a_wait_for_what_comes_before_on_the_stream(events: Events) -> None:
    events.record(events.one)
    for _ in range(3):
        events.wait(events.one)
    assert events.since("waits") == 3
    events.wait(events.two)  # somebody else's
    events.record(events.two)
    events.wait(events.one)
    assert events.since("waits") == 3
    events.record(0)
    events.wait(0)  # whatever the default stream gets is a barrier
    assert events.since("waits") == 3


def test_a_wait_for_what_has_happened(events: Events) -> None:
    events.record(events.one)
    events.wait(events.two)
    assert events.since("waits") == 0
    events.program.ok("cuEventSynchronize", events.event)
    events.wait(events.two)
    assert events.since("waits") == 1
    events.record(events.one)
    events.wait(events.two)
    assert events.since("waits") == 1
    eventually(lambda: events.program.call("cuEventQuery", events.event)[0] == SUCCESS)
    events.wait(events.two)
    assert events.since("waits") == 2


def test_a_question_tells_only_of_the_record_it_was_about(events: Events) -> None:
    """One thread waits for a record; before it is through, the event is recorded again."""
    program = events.program
    words = program.number("cuMemHostAlloc", out(8), 8, 2)
    program.execute(f"words = (ctypes.c_uint32 * 2).from_address({words}); words[:] = [0, 0]")
    place = program.number("cuMemHostGetDevicePointer_v2", out(8), words, 0)
    program.ok("cuStreamWaitValue32_v2", events.one, place, 1, 0)
    program.ok("cuStreamWaitValue32_v2", events.two, place + 4, 1, 0)
    events.record(events.one)
    waiting = program.begin("cuEventSynchronize", events.event, first=[("cuCtxSetCurrent", events.context)])
    assert not program.finish(waiting, 0.2)["done"]
    events.record(events.two)
    program.execute("words[0] = 1")
    assert program.finish(waiting)["result"] == SUCCESS
    events.wait(events.one)
    dropped = events.since("waits")
    program.execute("words[1] = 1")  # or nothing would end after a failure
    assert dropped == 0


def test_what_is_recorded_unseen_is_waited_for(events: Events) -> None:
    program = events.program
    graph = program.number("cuGraphCreate", out(8), 0)
    program.ok("cuGraphAddEventRecordNode", out(8), graph, None, 0, events.event)
    ready = program.number("cuGraphInstantiateWithFlags", out(8), graph, 0)
    for unseen in (
        lambda: program.ok("cuCtxRecordEvent", events.context, events.event),
        lambda: program.ok("cuGraphLaunch", ready, events.two),  # straight
        lambda: program.ok("cuGraphLaunch", ready, events.two),
        lambda: program.ok("cuEventRecord_ptsz", events.event, events.two),
        lambda: program.ok("cuEventRecordWithFlags", events.event, events.two, 0),  # straight
    ):
        events.record(events.one)
        unseen()
        before = events.since("waits")
        events.wait(events.one)
        assert events.since("waits") == before


def test_a_new_event_is_not_the_old_one(events: Events) -> None:
    for _ in range(3):
        events.record(events.one)
        events.program.ok("cuEventDestroy_v2", events.event)
        events.event = events.program.number("cuEventCreate", out(8), 2)
        events.wait(events.one)
    assert events.since("waits") == 0


def test_records_that_nobody_looks_at(events: Events) -> None:
    events.hold()
    for _ in range(5):
        events.record(events.one)
        events.wait(events.one)  # left out itself
    assert events.since("records") == 4
    events.wait(events.two)
    events.record(events.one)
    assert events.since("records") == 4
    events.record(0)
    assert events.since("records") == 5
    events.record(events.one)  # the default stream's record is a barrier
    assert events.since("records") == 5
    events.held.touch()
    events.program.ok("cuEventSynchronize", events.event)


def test_a_graph_may_look(events: Events) -> None:
    program = events.program
    graph = program.number("cuGraphCreate", out(8), 0)
    program.ok("cuGraphAddEventWaitNode", out(8), graph, None, 0, events.event)
    ready = program.number("cuGraphInstantiateWithFlags", out(8), graph, 0)
    program.ok("cuGraphLaunch", ready, events.two)
    events.hold()
    events.record(events.one)
    program.ok("cuGraphLaunch", ready, events.two)
    events.record(events.one)
    assert events.since("records") == 0


def test_a_thread_that_is_about_to_look_finds_the_record(events: Events) -> None:
    """It waits for the queue up to the first record; were that one left out, it would see the one before."""
    events.hold()
    events.record(events.one)
    asking = events.program.begin("cuEventQuery", events.event, first=[("cuCtxSetCurrent", events.context)])

    def waits_for_the_queue() -> bool:
        inside = events.control.freeze(20, status=DEADLINE)["inside"]
        threads = [each["tid"] for each in inside if each["call"] == "cuEventQuery"]
        calls = [Path(f"/proc/{events.program.process.pid}/task/{tid}/syscall").read_text() for tid in threads]
        return any(call.split()[0] == FUTEX for call in calls)

    eventually(waits_for_the_queue)
    events.record(events.one)
    assert events.since("records") == 0
    events.held.touch()
    assert events.program.finish(asking)["result"] in (SUCCESS, NOT_READY)
    events.record(events.one)


def test_the_current_context_is_set_once(events: Events) -> None:
    program = events.program
    program.ok("cuCtxGetCurrent", out(8))
    for _ in range(4):
        program.ok("cuCtxSetCurrent", events.context)
    assert events.since("settings") == 4
    other = program.number("cuCtxCreate_v2", out(8), 0, 0)
    program.ok("cuCtxSetCurrent", events.context)
    assert events.since("settings") == 4
    program.ok("cuCtxSetCurrent", other)
    program.ok("cuCtxDestroy_v2", other)
    assert program.call("cuCtxSetCurrent", other)[0] != SUCCESS
    program.ok("cuCtxSetCurrent", events.context)
    program.ok("cuCtxSetCurrent", None)
    assert program.number("cuCtxGetCurrent", out(8)) != other
    program.ok("cuCtxSetCurrent", events.context)
    assert program.number("cuCtxGetCurrent", out(8)) == events.context


def test_a_cache_configuration_is_set_once(events: Events) -> None:
    program, carve_out = events.program, 9
    module = program.number("cuModuleLoadData", out(8), {"bytes": PTX.encode().hex() + "00"})
    function = program.number("cuModuleGetFunction", out(8), module, {"bytes": b"none\0".hex()})
    for _ in range(3):
        program.ok("cuFuncSetCacheConfig", function, 1)
        program.ok("cuCtxSetCacheConfig", 2)
    assert events.since("settings") == 4
    program.ok("cuFuncSetCacheConfig", function, 2)
    assert program.call("cuFuncSetAttribute", function, carve_out, 50)[0] in (SUCCESS, NOT_SUPPORTED)
    program.ok("cuFuncSetCacheConfig", function, 2)  # the carve-out may have changed it
    assert program.call("cuFuncSetAttribute", function, carve_out, 50)[0] in (SUCCESS, NOT_SUPPORTED)
    assert events.since("settings") == 4


def test_what_is_left_out_changes_no_answer(events: Events) -> None:
    program, carve_out, registers = events.program, 9, 4
    module = program.number("cuModuleLoadData", out(8), {"bytes": PTX.encode().hex() + "00"})
    function = program.number("cuModuleGetFunction", out(8), module, {"bytes": b"none\0".hex()})
    program.ok("cuFuncSetCacheConfig", function, 1)
    told = program.number("cuFuncGetAttribute", out(4), registers, function)
    answered = events.counts()["answered"]
    for _ in range(64):
        program.ok("cuFuncSetCacheConfig", function, 1)
        assert program.number("cuFuncGetAttribute", out(4), registers, function) == told
    assert events.since("settings") == 64
    assert events.counts()["answered"] - answered == 64
    program.call("cuFuncSetAttribute", function, carve_out, 50)  # may have changed it
    program.ok("cuFuncSetCacheConfig", function, 1)
    assert events.since("settings") == 64
    program.ok("cuFuncSetCacheConfig", function, 1)
    program.ok("cuFuncSetCacheConfig", function, 2)
    program.ok("cuFuncSetCacheConfig", function, 1)
    assert events.since("settings") == 65
    program.ok("cuModuleUnload", module)
    module = program.number("cuModuleLoadData", out(8), {"bytes": PTX.encode().hex() + "00"})
    again = program.number("cuModuleGetFunction", out(8), module, {"bytes": b"none\0".hex()})
    program.ok("cuFuncSetCacheConfig", again, 1)  # another function, even at the same address
    assert events.since("settings") == 65


def test_with_answers_alone_the_same_setting_again(tmp_path: Path) -> None:
    running, dynamic = Events(tmp_path, "answers"), 8
    program = running.program
    module = program.number("cuModuleLoadData", out(8), {"bytes": PTX.encode().hex() + "00"})
    function = program.number("cuModuleGetFunction", out(8), module, {"bytes": b"none\0".hex()})
    for _ in range(3):
        program.ok("cuFuncSetCacheConfig", function, 1)
    assert running.since("settings") == 2
    for value in (2, 1):
        program.ok("cuFuncSetCacheConfig", function, value)
    assert running.since("settings") == 2
    for size in (4096, 4096, 2048, 4096, 4096):
        program.ok("cuFuncSetAttribute", function, dynamic, size)
        assert program.number("cuFuncGetAttribute", out(4), dynamic, function) == size
    assert running.since("settings") == 4
    program.ok("cuCtxSetLimit", 0, 4096)  # whatever depends on it
    program.ok("cuFuncSetAttribute", function, dynamic, 4096)
    assert running.since("settings") == 4
    program.ok("cuModuleUnload", module)
    module = program.number("cuModuleLoadData", out(8), {"bytes": PTX.encode().hex() + "00"})
    again = program.number("cuModuleGetFunction", out(8), module, {"bytes": b"none\0".hex()})
    program.ok("cuFuncSetAttribute", again, dynamic, 4096)  # another function, even at the same address
    assert running.since("settings") == 4
    running.end()


@pytest.mark.parametrize("level", ["answers", "always"])
def test_a_setting_is_left_out_in_the_context_in_which_it_was_made(tmp_path: Path, level: str) -> None:
    running, dynamic = Events(tmp_path, level), 8
    program = running.program
    module = program.number("cuModuleLoadData", out(8), {"bytes": PTX.encode().hex() + "00"})
    function = program.number("cuModuleGetFunction", out(8), module, {"bytes": b"none\0".hex()})
    settings = (("cuFuncSetAttribute", function, dynamic, 4096), ("cuFuncSetCacheConfig", function, 1))
    for setting in settings:
        program.ok(*setting)
        program.ok(*setting)
    assert running.since("settings") == 2
    program.ok("cuCtxSetCurrent", None)
    assert [program.call(*setting)[0] for setting in settings] == [SUCCESS] * 2
    program.ok("cuCtxSetCurrent", running.context)
    for setting in settings:
        program.ok(*setting)
        before = running.since("settings")
        program.ok(*setting)
        assert running.since("settings") == before + 1
    other = program.number("cuCtxCreate_v2", out(8), 0, 0)
    ending = (("cuCtxDestroy_v2", other), ("cuCtxSetCurrent", running.context), settings[0])
    elsewhere = program.begin(*settings[1], first=ending)
    assert program.finish(elsewhere)["result"] == SUCCESS
    assert [program.call(*setting)[0] for setting in settings] == [CONTEXT_IS_DESTROYED] * 2
    program.ok("cuCtxSetCurrent", running.context)
    running.end()


PTX = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry none() { ret; }\n"


def test_nothing_is_dropped_where_only_questions_are_answered(tmp_path: Path) -> None:
    events = Events(tmp_path, "answers")
    events.program.ok("cuCtxGetCurrent", out(8))
    for _ in range(3):
        events.record(events.one)
        events.wait(events.one)
        events.program.ok("cuCtxSetCurrent", events.context)
    assert events.counts()["dropped"] == 0
    events.end()
