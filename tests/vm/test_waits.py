"""Calls that end something, or ask for what work has done, wait until the driver has what was deferred before them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.native.arena.harness import HELLO, MIB, SUCCESS, Program, environment, out

PTX = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry none() { ret; }\n"
NOT_READY = 600
LEGACY, PER_THREAD = 1, 2


class Slow:
    """A program with something of each kind, and a driver that takes no more work until `held` exists."""

    def __init__(self, folder: Path) -> None:
        self.held = folder / "held"
        fault = f"cuMemsetD16Async@1=hang:{self.held}"
        self.program = Program(folder, environment, TORPOR_VM="always", TORPOR_SIM_FAULT=fault)
        self.context = self.program.start_up()
        image = {"bytes": PTX.encode().hex() + "00"}
        self.made = {
            "module": self.program.number("cuModuleLoadData", out(8), image),
            "library": self.program.number("cuLibraryLoadData", out(8), image, None, None, 0, None, None, 0),
            "context": self.program.number("cuCtxCreate_v2", out(8), 0, 0),
        }
        self.program.ok("cuCtxSetCurrent", self.context)
        graph = self.program.number("cuGraphCreate", out(8), 0)
        self.made |= {
            "memory": self.program.allocate(MIB),
            "host": self.program.number("cuMemHostAlloc", out(8), 4096, 0),
            "stream": self.program.number("cuStreamCreate", out(8), 1),
            "event": self.program.number("cuEventCreate", out(8), 0),
            "graph": self.program.number("cuGraphInstantiateWithFlags", out(8), graph, 0),
        }
        working = self.program.allocate(MIB)
        self.program.ok("cuMemsetD8Async", working, 1, 64, 0)
        self.program.ok("cuMemsetD16Async", working, 2, 8, 0)


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[Slow]:
    running = Slow(tmp_path)
    yield running
    running.held.touch()
    running.program.end()


CALLS: dict[str, tuple[Any, ...]] = {
    "cuMemFree_v2": ("memory",),
    "cuMemFreeHost": ("host",),
    "cuStreamDestroy_v2": ("stream",),
    "cuEventDestroy_v2": ("event",),
    "cuGraphExecDestroy": ("graph",),
    "cuModuleUnload": ("module",),
    "cuLibraryUnload": ("library",),
    "cuCtxDestroy_v2": ("context",),
    "cuDevicePrimaryCtxRelease_v2": (0,),
    "cuDevicePrimaryCtxReset_v2": (0,),
    "cuEventQuery": ("event",),
    "cuStreamQuery": ("stream",),
    "cuStreamSynchronize": ("stream",),
    "cuEventSynchronize": ("event",),
    "cuCtxSynchronize": (),
    "cuMemcpyDtoH_v2": (out(64), "memory", 64),
    "cuMemsetD8_v2": ("memory", 1, 64),
    "cuStreamBeginCapture_v2": ("stream", 0),
    "cuMemHostAlloc": (out(8), 4096, 0),
    "cuMemAlloc_v2": (out(8), MIB),
}


@pytest.mark.parametrize("symbol", CALLS)
def test_a_call_waits_for_the_queue(slow: Slow, symbol: str) -> None:
    given = [slow.made[each] if isinstance(each, str) else each for each in CALLS[symbol]]
    call = slow.program.begin(symbol, *given, first=[("cuCtxSetCurrent", slow.context)])
    assert not slow.program.finish(call, 0.1)["done"]
    slow.held.touch()
    assert slow.program.finish(call)["result"] in (SUCCESS, NOT_READY)


@pytest.mark.parametrize("stream", [LEGACY, PER_THREAD])
def test_a_thread_works_on_its_own_default_stream_itself(tmp_path: Path, stream: int) -> None:
    """In another thread that stream is another one."""
    program = Program(tmp_path, environment, TORPOR_VM="always")
    program.start_up()
    memory = program.allocate(MIB)
    for value in range(9):
        program.ok("cuMemsetD8Async", memory, value, MIB, stream)
    program.ok("cuStreamSynchronize", stream)
    with program.control() as control:
        assert (control.json(HELLO)["vm"]["deferred"] > 0) == (stream == LEGACY)
    assert program.read(memory + MIB - 1, 1) == b"\x08"
    program.end()
