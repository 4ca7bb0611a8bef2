"""Graphs of ours are given up before what they refer to ends or changes, and before captures and freezes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.native.arena.harness import HELLO, MIB, THAW, Program, environment, out

PTX = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry none() { ret; }\n"
DEVICE_STACK, CARVE_OUT, GLOBAL = 0, 9, 0


def merge(program: Program, held: Path, stream: int) -> int:
    """Makes fills that are alike, which wait until `held` is made; returns how many graphs were launched for them."""
    memory = program.allocate(MIB)
    program.ok("cuMemsetD8Async", memory, 1, 64, stream)
    program.ok("cuMemsetD16Async", memory, 2, 8, stream)
    for turn in range(60):
        program.ok("cuMemsetD8Async", memory + turn, turn, 3, stream)
    held.touch()
    program.ok("cuStreamSynchronize", stream)
    with program.control() as control:
        vm = control.json(HELLO)["vm"]
    assert vm["deferred"] > 60
    return int(vm["merged_graphs"])


class Merging:
    """A program that has a graph in place of its fills, and a driver that destroys none until `gone` exists."""

    def __init__(self, folder: Path) -> None:
        self.gone, held = folder / "gone", folder / "held"
        fault = f"cuMemsetD16Async@1=hang:{held};cuGraphExecDestroy@1=hang:{self.gone}"
        self.program = Program(folder, environment, TORPOR_VM="always-full", TORPOR_SIM_FAULT=fault)
        self.context = self.program.start_up()
        image = {"bytes": PTX.encode().hex() + "00"}
        self.module = self.program.number("cuModuleLoadData", out(8), image)
        self.function = self.program.number("cuModuleGetFunction", out(8), self.module, {"bytes": b"none\0".hex()})
        self.library = self.program.number("cuLibraryLoadData", out(8), image, None, None, 0, None, None, 0)
        self.other = self.program.number("cuCtxCreate_v2", out(8), 0, 0)
        self.program.ok("cuCtxSetCurrent", self.context)
        self.idle = self.program.number("cuStreamCreate", out(8), 1)
        self.merged = merge(self.program, held, self.program.number("cuStreamCreate", out(8), 1))


@pytest.fixture
def merging(tmp_path: Path) -> Iterator[Merging]:
    running = Merging(tmp_path)
    assert running.merged > 0
    yield running
    running.gone.touch()
    running.program.end()


ENDINGS: dict[str, Any] = {
    "cuModuleUnload": lambda it: (it.module,),
    "cuLibraryUnload": lambda it: (it.library,),
    "cuStreamDestroy_v2": lambda it: (it.idle,),
    "cuCtxDestroy_v2": lambda it: (it.other,),
    "cuFuncSetAttribute": lambda it: (it.function, CARVE_OUT, 50),
    "cuFuncSetCacheConfig": lambda it: (it.function, 1),
    "cuCtxSetLimit": lambda _: (DEVICE_STACK, 4096),
    "cuCtxSetFlags": lambda _: (4,),
    "cuStreamBeginCapture_v2": lambda it: (it.idle, GLOBAL),
}


@pytest.mark.parametrize("symbol", ENDINGS)
def test_before_a_call(merging: Merging, symbol: str) -> None:
    call = merging.program.begin(symbol, *ENDINGS[symbol](merging), first=[("cuCtxSetCurrent", merging.context)])
    assert not merging.program.finish(call, 0.2)["done"]
    merging.gone.touch()
    assert merging.program.finish(call)["result"] == 0


def test_before_a_freeze(merging: Merging) -> None:
    late = f"threading.Timer(0.3, lambda: open({str(merging.gone)!r}, 'w')).start()"
    merging.program.execute(f"import threading; {late}")
    with merging.program.control() as control:
        control.freeze()
        assert merging.gone.exists()
        control.json(THAW)


NAME, VALUE = {"bytes": b"none\0".hex()}, {"bytes": "00" * 64}
FOR_GOOD: dict[str, tuple[Any, ...]] = {
    "cuStreamSetAttribute": ("stream", 3, VALUE),
    "cuStreamSetAttribute_ptsz": ("stream", 3, VALUE),
    "cuStreamCopyAttributes": ("stream", "stream"),
    "cuStreamCopyAttributes_ptsz": ("stream", "stream"),
    "cuModuleGetTexRef": (out(8), "module", NAME),
    "cuModuleGetSurfRef": (out(8), "module", NAME),
    "cuGreenCtxCreate": (out(8), None, 0, 1),
    "cuStreamIsCapturing": ("stream", out(4)),  # as any other call: nothing
}


@pytest.mark.parametrize("symbol", FOR_GOOD)
def test_nothing_is_merged_after_what_a_graph_would_not_see(tmp_path: Path, symbol: str) -> None:
    held = tmp_path / "held"
    program = Program(
        tmp_path, environment, TORPOR_VM="always-full", TORPOR_SIM_FAULT=f"cuMemsetD16Async@1=hang:{held}"
    )
    program.start_up()
    made = {
        "stream": program.number("cuStreamCreate", out(8), 1),
        "module": program.number("cuModuleLoadData", out(8), {"bytes": PTX.encode().hex() + "00"}),
    }
    program.call(symbol, *(made[each] if isinstance(each, str) else each for each in FOR_GOOD[symbol]))
    assert (merge(program, held, made["stream"]) > 0) == (symbol == "cuStreamIsCapturing")
    program.end()


def test_a_stream_with_a_priority_is_left_alone(tmp_path: Path) -> None:
    held = tmp_path / "held"
    program = Program(
        tmp_path, environment, TORPOR_VM="always-full", TORPOR_SIM_FAULT=f"cuMemsetD16Async@1=hang:{held}"
    )
    program.start_up()
    least, greatest = program.ok("cuCtxGetStreamPriorityRange", out(4), out(4))
    assert least != greatest
    priority = int.from_bytes(greatest, "little", signed=True)
    assert merge(program, held, program.number("cuStreamCreateWithPriority", out(8), 1, priority)) == 0
    program.end()
