"""Errors after which a context is of no more use, and errors that look like them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.native.arena.harness import HELLO, MIB, SUCCESS, Program, environment, out
from tests.vm.test_corners import compare

PTX = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry none() { ret; }\n"
CONTEXT_IS_DESTROYED = 709
LOST = (214, 220, 226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911, 999)
NOT_LOST = (1, 2, 201, 400, 500, 600, 701, 703, 704, 705, 708, 709, 711, 712, 713, 720, 800, 801)


def answers(program: Program) -> bool:
    """Whether a question that was asked before is answered in the job."""

    def answered() -> int:
        with program.control() as control:
            return int(control.json(HELLO)["vm"]["answered"])

    before = answered()
    for _ in range(2 * 64):  # counted 64 at a time
        program.ok("cuDeviceGetCount", out(4))
    return answered() > before


def test_after_the_loss_of_a_context_the_driver_is_asked(tmp_path: Path) -> None:
    for status in (*NOT_LOST, *LOST):
        folder = tmp_path / str(status)
        folder.mkdir()
        fault = f"cuStreamSynchronize@1=fail:{status}"
        program = Program(folder, environment, TORPOR_VM="answers", TORPOR_SIM_FAULT=fault)
        program.start_up()
        assert answers(program)
        assert program.call("cuStreamSynchronize", 0)[0] == status
        assert answers(program) == (status not in LOST), status
        program.end()


def test_a_context_that_another_thread_destroyed_ends_no_answers(tmp_path: Path) -> None:
    program = Program(tmp_path, environment, TORPOR_VM="answers")
    context = program.start_up()
    module = program.number("cuModuleLoadData", out(8), {"bytes": PTX.encode().hex() + "00"})
    function = program.number("cuModuleGetFunction", out(8), module, {"bytes": b"none\0".hex()})
    other = program.number("cuCtxCreate_v2", out(8), 0, 0)
    program.finish(program.begin("cuCtxDestroy_v2", other))
    assert program.call("cuFuncSetCacheConfig", function, 1)[0] == CONTEXT_IS_DESTROYED
    program.ok("cuCtxSetCurrent", context)
    assert program.call("cuFuncSetCacheConfig", function, 1)[0] == SUCCESS
    assert answers(program)
    program.end()


@pytest.mark.parametrize("level", ["off", "answers", "always"])
def test_a_device_that_is_gone_gives_no_memory(tmp_path: Path, level: str) -> None:
    compare("device_that_is_gone", tmp_path, "lost:0", level, TORPOR_SIM_FAULT="cuMemsetD16Async@1=lost:0")


def test_an_error_of_a_context_that_is_gone_holds_up_nobody(tmp_path: Path) -> None:
    """Nobody can be told any more."""
    program = Program(tmp_path, environment, TORPOR_VM="always", TORPOR_SIM_FAULT="cuMemsetD16Async@1=fail:1")
    context = program.start_up()
    here = program.allocate(MIB)
    other = program.number("cuCtxCreate_v2", out(8), 0, 0)
    there = program.allocate(MIB)
    program.ok("cuMemsetD8Async", there, 1, 64, 0)
    program.ok("cuMemsetD16Async", there, 1, 8, 0)  # fails, later on
    program.ok("cuCtxDestroy_v2", other)
    program.ok("cuCtxSetCurrent", context)
    for value in range(9):
        program.ok("cuMemsetD8Async", here, value, 64, 0)
    program.ok("cuCtxSynchronize")
    with program.control() as control:
        assert control.json(HELLO)["vm"]["deferred"] == 1 + 8
    program.end()
