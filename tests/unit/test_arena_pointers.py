"""What the driver says about pointers: arena memory must answer as cuMemAlloc memory does."""

from __future__ import annotations

from typing import Any

import pytest

from tests.native.arena.harness import INVALID_VALUE, MIB, SUCCESS, Program, out, program_fixture

program = program_fixture()
plain = program_fixture(TORPOR_ARENA="off")

CONTEXT, MEMORY_TYPE, DEVICE_POINTER, HOST_POINTER = 1, 2, 3, 4
BUFFER_ID, RANGE_START, RANGE_SIZE, MAPPING_SIZE, MAPPING_BASE = 7, 11, 12, 18, 19
COMPARED = [MEMORY_TYPE, HOST_POINTER, 8, 9, 10, RANGE_SIZE, 13, 14, 17]


def attribute(running: Program, which: int, address: int) -> tuple[int, int]:
    result, outputs = running.cuPointerGetAttribute(out(8), which, address)
    return result, int.from_bytes(outputs[0], "little")


@pytest.mark.parametrize("size", [700, 5 * MIB])
def test_attributes_are_those_of_driver_memory(program: Program, plain: Program, size: int) -> None:
    seen: list[dict[int, tuple[int, int]]] = []
    for running in (program, plain):
        context = running.start_up()
        running.allocate(100)  # so that the small one is inside a slab, not at its start
        address = running.allocate(size)
        for inside in (0, 1, size - 1):
            pointer = address + inside
            assert attribute(running, CONTEXT, pointer) == (SUCCESS, context)
            assert attribute(running, DEVICE_POINTER, pointer) == (SUCCESS, pointer)
            assert attribute(running, RANGE_START, pointer) == (SUCCESS, address)
        seen.append({which: attribute(running, which, address + 1) for which in COMPARED})
    assert seen[0] == seen[1]


def test_all_attributes_at_once(program: Program) -> None:
    context = program.start_up()
    address = program.allocate(700)
    pointer = address + 10
    wanted = [CONTEXT, MEMORY_TYPE, DEVICE_POINTER, BUFFER_ID, RANGE_START, RANGE_SIZE]
    program.tell(
        exec=f"""
library = ctypes.CDLL("libcuda.so.1")
wanted = {wanted}
values = [ctypes.c_uint64(0) for _ in wanted]
pointers = (ctypes.c_void_p * len(wanted))(*[ctypes.addressof(each) for each in values])
result = library.cuPointerGetAttributes(len(wanted), (ctypes.c_int * len(wanted))(*wanted), pointers,
                                        ctypes.c_uint64({pointer}))
"""
    )
    assert program.value("result") == SUCCESS
    identity = attribute(program, BUFFER_ID, pointer)[1]
    assert program.value("[each.value for each in values]") == [context, 2, pointer, identity, address, 700]


def test_buffer_ids_are_stable_and_never_used_twice(program: Program) -> None:
    program.start_up()
    first, second = program.allocate(700), program.allocate(700)
    ids = [attribute(program, BUFFER_ID, each)[1] for each in (first, first + 699, second)]
    assert ids[0] == ids[1] != ids[2]
    program.ok("cuMemFree_v2", first)
    again = program.allocate(700)
    assert again == first
    assert attribute(program, BUFFER_ID, again)[1] not in ids


def test_a_gap_in_a_slab_is_no_memory(program: Program, plain: Program) -> None:
    program.start_up()
    plain.start_up()
    address = program.allocate(700)
    unknown = 0x123450000
    for gap in (address + 700, address + 4096):
        assert attribute(program, MEMORY_TYPE, gap)[0] == attribute(plain, MEMORY_TYPE, unknown)[0] == INVALID_VALUE
        assert (
            program.cuMemGetAddressRange_v2(out(8), out(8), gap)[0]
            == (plain.cuMemGetAddressRange_v2(out(8), out(8), unknown)[0])
        )


def test_address_range_takes_null_outputs(program: Program) -> None:
    program.start_up()
    address = program.allocate(700)
    for args, expected in (
        ((out(8), None, address + 5), [address]),
        ((None, out(8), address + 5), [700]),
        ((None, None, address + 5), []),
    ):
        result, outputs = program.call("cuMemGetAddressRange_v2", *args)
        assert result == SUCCESS
        assert [int.from_bytes(each, "little") for each in outputs] == expected


def test_other_memory_answers_for_itself(program: Program) -> None:
    program.start_up()
    program.allocate(100)
    host = program.number("cuMemHostAlloc", out(8), 4096, 0)
    kind: Any = attribute(program, MEMORY_TYPE, host)
    assert kind == (SUCCESS, 1)
    assert program.cuPointerGetAttribute(None, MEMORY_TYPE, host)[0] == INVALID_VALUE


def test_no_handle_of_arena_memory_can_be_retained(program: Program) -> None:
    program.start_up()
    for size in (700, 5 * MIB):
        assert program.cuMemRetainAllocationHandle(out(8), program.allocate(size))[0] == INVALID_VALUE
