"""Graphs of ours are given up before what they refer to ends or changes, and before captures and freezes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.native.arena.harness import HELLO, MIB, THAW, Program, environment, out

PTX = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry none() { ret; }\n"
DEVICE_STACK, CARVE_OUT, GLOBAL = 0, 9, 0


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
        stream, memory = self.program.number("cuStreamCreate", out(8), 1), self.program.allocate(MIB)
        self.program.ok("cuMemsetD8Async", memory, 1, 64, stream)
        self.program.ok("cuMemsetD16Async", memory, 2, 8, stream)
        for turn in range(60):
            self.program.ok("cuMemsetD8Async", memory + turn, turn, 3, stream)
        held.touch()
        self.program.ok("cuStreamSynchronize", stream)
        with self.program.control() as control:
            assert control.json(HELLO)["vm"]["merged_graphs"] > 0


@pytest.fixture
def merging(tmp_path: Path) -> Iterator[Merging]:
    running = Merging(tmp_path)
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
