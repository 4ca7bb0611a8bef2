"""Contexts of the software GPU: primary ones, those of the program, the stack of each thread."""

from __future__ import annotations

import pytest

from tests.native.simgpu.program import (
    CONTEXT_IS_DESTROYED,
    GIB,
    INVALID_CONTEXT,
    INVALID_HANDLE,
    INVALID_VALUE,
    MIB,
    Mapping,
    Program,
    Start,
    out,
    programs_fixture,
)

start = programs_fixture()

UNSUPPORTED_LIMIT = 215
STACK_SIZE = 0


def current(program: Program) -> int:
    return program.number("cuCtxGetCurrent", out(8))


def state(program: Program, device: int = 0) -> tuple[int, int]:
    flags, active = program.ok("cuDevicePrimaryCtxGetState", device, out(4), out(4))
    return int.from_bytes(flags, "little"), int.from_bytes(active, "little")


def test_primary_context_is_counted(start: Start) -> None:
    program = start()
    program.ok("cuInit", 0)
    assert state(program) == (0, 0)
    context = program.number("cuDevicePrimaryCtxRetain", out(8), 0)
    assert program.number("cuDevicePrimaryCtxRetain", out(8), 0) == context
    assert state(program) == (0, 1)
    assert current(program) == 0
    program.ok("cuCtxSetCurrent", context)
    program.allocate(64 * MIB)
    program.ok("cuDevicePrimaryCtxRelease_v2", 0)
    assert program.free_memory() == 16 * GIB - 64 * MIB
    program.ok("cuDevicePrimaryCtxRelease_v2", 0)
    assert state(program) == (0, 0)
    assert program.status("cuMemAlloc_v2", out(8), 1) == CONTEXT_IS_DESTROYED
    assert program.status("cuDevicePrimaryCtxRelease_v2", 0) == INVALID_CONTEXT
    # The handle stays the same when it comes back, its memory does not.
    assert program.number("cuDevicePrimaryCtxRetain", out(8), 0) == context
    assert program.free_memory() == 16 * GIB


@pytest.mark.parametrize("primary", [False, True])
def test_the_end_of_a_context_waits_for_its_work(start: Start, primary: bool) -> None:
    """What it still wrote afterwards could be somebody else's memory by then."""
    program, size = start(), 512 * MIB
    program.start_up()
    memory = Mapping(program, size)
    if not primary:
        context = program.number("cuCtxCreate_v2", out(8), 0, 0)
    stream = program.number("cuStreamCreate", out(8), 1)
    program.ok("cuMemsetD8Async", memory.address, 7, size, stream)
    if primary:
        program.ok("cuDevicePrimaryCtxReset_v2", 0)
        program.ok("cuDevicePrimaryCtxRetain", out(8), 0)
    else:
        program.ok("cuCtxDestroy_v2", context)
    assert program.read(memory.address + size - 16, 16) == b"\7" * 16


def test_reset_frees_everything(start: Start) -> None:
    program = start()
    program.start_up()
    address, stream = program.allocate(MIB), program.number("cuStreamCreate", out(8), 0)
    flag = program.number("cuMemHostAlloc", out(8), 4, 0)
    program.ok("cuStreamWaitValue32_v2", stream, flag, 1, 0)  # never met: the reset ends the wait
    program.ok("cuDevicePrimaryCtxReset_v2", 0)
    program.start_up()
    assert program.status("cuStreamQuery", stream) == INVALID_HANDLE
    assert program.status("cuMemcpyDtoH_v2", out(1), address, 1) == INVALID_VALUE


def test_flags(start: Start) -> None:
    program = start()
    program.ok("cuInit", 0)
    program.ok("cuDevicePrimaryCtxSetFlags_v2", 0, 4)
    assert state(program) == (4, 0)
    context = program.number("cuDevicePrimaryCtxRetain", out(8), 0)
    program.ok("cuCtxSetCurrent", context)
    assert program.number("cuCtxGetFlags", out(4)) == 4 | 8


def test_stack_of_own_contexts(start: Start) -> None:
    program = start(TORPOR_SIM_DEVICES="2")
    program.ok("cuInit", 0)
    first = program.number("cuCtxCreate_v2", out(8), 0, 0)
    second = program.number("cuCtxCreate_v4", out(8), None, 0, 1)
    third = program.number("cuCtxCreate_v3", out(8), None, 0, 0, 0)
    assert len({first, second, third}) == 3
    assert current(program) == third
    assert program.number("cuCtxPopCurrent_v2", out(8)) == third
    assert program.number("cuCtxGetDevice", out(4)) == 1
    assert program.number("cuCtxGetDevice_v2", out(4), first) == 0
    program.ok("cuCtxPushCurrent_v2", first)
    program.ok("cuCtxDestroy_v2", second)  # below the top: stays there, and is found destroyed
    program.ok("cuCtxPopCurrent_v2", out(8))
    assert program.status("cuMemAlloc_v2", out(8), 1) == CONTEXT_IS_DESTROYED
    assert program.status("cuCtxSetCurrent", second) == INVALID_CONTEXT
    program.ok("cuCtxSetCurrent", None)
    assert current(program) == first
    program.ok("cuCtxDestroy_v2", first)
    assert current(program) == 0
    assert program.status("cuCtxPopCurrent_v2", out(8)) == INVALID_CONTEXT
    assert program.status("cuCtxDestroy_v2", first) == CONTEXT_IS_DESTROYED
    last = program.number("cuCtxCreate_v2", out(8), 0, 0)
    program.ok("cuCtxDetach", last)
    assert program.status("cuCtxDestroy_v2", last) == CONTEXT_IS_DESTROYED
    ids = {program.number("cuCtxGetId", third, out(8))}
    assert ids == {3}


def test_destroying_a_context_frees_its_memory_only(start: Start) -> None:
    program = start()
    program.start_up()
    kept = program.allocate(2 * MIB)
    own = program.number("cuCtxCreate_v2", out(8), 0, 0)
    program.allocate(10 * MIB)
    assert program.free_memory() == 16 * GIB - 12 * MIB
    program.ok("cuCtxDestroy_v2", own)
    assert program.free_memory() == 16 * GIB - 2 * MIB
    assert program.read(kept, 1) == b"\0"


def test_a_primary_context_cannot_be_destroyed_as_an_own_one(start: Start) -> None:
    program = start()
    assert program.status("cuCtxDestroy_v2", program.start_up()) == INVALID_CONTEXT


def test_limits_and_versions(start: Start) -> None:
    program = start()
    context = program.start_up()
    assert program.number("cuCtxGetLimit", out(8), STACK_SIZE) == 1024
    program.ok("cuCtxSetLimit", STACK_SIZE, 4096)
    assert program.number("cuCtxGetLimit", out(8), STACK_SIZE) == 4096
    assert program.status("cuCtxGetLimit", out(8), 77) == UNSUPPORTED_LIMIT
    assert program.number("cuCtxGetApiVersion", context, out(4)) == 3020
    least, greatest = program.ok("cuCtxGetStreamPriorityRange", out(4), out(4))
    assert int.from_bytes(least, "little", signed=True) > int.from_bytes(greatest, "little", signed=True)
