"""Managed memory that is host-backed: one address for CPU and GPU, and the driver's answers to what programs ask."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from tests.native.arena.harness import HELLO, INVALID_VALUE, MIB, Program, out, program_fixture

program = program_fixture(TORPOR_MANAGED="host")
arena_off = program_fixture(TORPOR_MANAGED="host", TORPOR_ARENA="off")
native = program_fixture(TORPOR_ARENA="off")

GLOBAL = 1
MANAGED, MEMORY_TYPE, DEVICE_POINTER, HOST_POINTER, RANGE_START, RANGE_SIZE = 8, 2, 3, 4, 11, 12


def allocate(running: Program, size: int, flags: int = GLOBAL) -> int:
    return running.number("cuMemAllocManaged", out(8), size, flags)


def attribute(running: Program, which: int, address: int) -> int:
    return running.number("cuPointerGetAttribute", out(8), which, address)


@pytest.mark.parametrize("kind", ["program", "arena_off"])
def test_cpu_and_gpu_see_the_same_bytes(request: pytest.FixtureRequest, kind: str) -> None:
    running: Program = request.getfixturevalue(kind)
    running.start_up()
    for size in (1, 700, 5 * MIB + 3):
        address = allocate(running, size)
        running.fill(address, size, 7)
        running.ok("cuCtxSynchronize")
        assert running.value(f"set(ctypes.string_at({address}, {size})) == {{7}}")
        running.execute(f"ctypes.memset({address}, 8, {size})")
        assert running.read(address, size) == b"\10" * size
        running.ok("cuMemFree_v2", address)
        assert running.cuMemFree_v2(address)[0] != 0
    with running.control() as control:
        assert control.json(HELLO)["residual"]["managed"] == 0


def test_it_is_gone_after_free(program: Program) -> None:
    program.start_up()
    address = allocate(program, 3 * MIB)
    assert program.cuMemFree_v2(address + 512)[0] == INVALID_VALUE
    maps = f"'{address:x}-' in open('/proc/self/maps').read()"
    assert program.value(maps)
    program.ok("cuMemFree_v2", address)
    assert not program.value(maps)


def test_it_goes_with_its_context(program: Program) -> None:
    program.start_up()
    context = program.number("cuCtxCreate_v2", out(8), 0, 0)
    address = allocate(program, 3 * MIB)
    program.ok("cuCtxDestroy_v2", context)
    assert not program.value(f"'{address:x}-' in open('/proc/self/maps').read()")


def test_attributes_are_those_of_managed_memory(program: Program, native: Program) -> None:
    answers = []
    for running in (program, native):
        running.start_up()
        address = allocate(running, 3 * MIB)
        inside = address + 4096
        relative = {DEVICE_POINTER: inside, HOST_POINTER: inside, RANGE_START: address}
        answers.append(
            [
                attribute(running, which, inside) - relative.get(which, 0)
                for which in (MANAGED, MEMORY_TYPE, DEVICE_POINTER, HOST_POINTER, RANGE_START, RANGE_SIZE)
            ]
        )
        base, size = running.ok("cuMemGetAddressRange_v2", out(8), out(8), inside)
        answers[-1] += [int.from_bytes(base, "little") - address, int.from_bytes(size, "little")]
    assert answers[0] == answers[1]


def test_wrong_calls_fail_as_the_drivers(program: Program, native: Program) -> None:
    cases: list[tuple[Any, ...]] = [
        ("cuMemAllocManaged", None, 100, GLOBAL),
        ("cuMemAllocManaged", out(8), 0, GLOBAL),
        ("cuMemAllocManaged", out(8), 100, 9),
        ("cuMemAdvise", 12345, 100, 1, 0),
        ("cuMemPrefetchAsync", 12345, 100, 0, 0),
    ]
    for started in (False, True):
        if started:
            program.start_up()
            native.start_up()
        for name, *arguments in cases:
            assert program.call(name, *arguments)[0] == native.call(name, *arguments)[0], (name, arguments, started)


def test_advice_is_remembered(program: Program) -> None:
    program.start_up()
    address = allocate(program, 4 * MIB)

    def ask(which: int, size: int = 4) -> tuple[int, ...]:
        [data] = program.ok("cuMemRangeGetAttribute", out(size), size, which, address, 4 * MIB)
        return struct.unpack(f"<{size // 4}i", data)

    read_mostly, preferred, accessed_by, last_prefetch = 1, 2, 3, 4
    nowhere, cpu = -2, -1
    assert [ask(each) for each in (read_mostly, preferred, last_prefetch)] == [(0,), (nowhere,), (nowhere,)]
    assert ask(accessed_by, 8) == (nowhere, nowhere)
    program.ok("cuMemAdvise", address, 4 * MIB, 1, 0)
    program.ok("cuMemAdvise", address, 4 * MIB, 3, 0)
    program.ok("cuMemAdvise", address, 4 * MIB, 5, 0xFFFFFFFF)  # accessed by the CPU
    program.ok("cuMemPrefetchAsync", address, 4 * MIB, 0, 0)
    assert [ask(each) for each in (read_mostly, preferred, last_prefetch)] == [(1,), (0,), (0,)]
    assert ask(accessed_by, 8) == (cpu, nowhere)
    program.ok("cuMemAdvise", address, 4 * MIB, 2, 0)
    program.ok("cuMemAdvise", address, 4 * MIB, 6, 0xFFFFFFFF)
    assert (ask(read_mostly), ask(accessed_by)) == ((0,), (nowhere,))
    assert program.cuMemAdvise(address, 4 * MIB, 3, 99)[0] != 0
    assert program.cuMemPrefetchAsync(address, 8 * MIB, 0, 0)[0] != 0
    program.ok("cuStreamAttachMemAsync", 0, address, 0, GLOBAL)


def test_a_child_does_not_carry_it(program: Program) -> None:
    program.start_up()
    address = allocate(program, 3 * MIB)
    program.execute(
        "told, telling = os.pipe()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        f"    os.write(telling, str('{address:x}-' in open('/proc/self/maps').read()).encode())\n"
        "    os._exit(0)\n"
        "os.waitpid(child, 0)\n"
    )
    assert program.value("os.read(told, 10).decode()") == "False"


def test_without_the_setting_it_is_the_drivers(tmp_path: Path) -> None:
    running = Program(tmp_path)
    try:
        running.start_up()
        allocate(running, 4096)
        with running.control() as control:
            assert control.json(HELLO)["residual"]["managed"] == 1
    finally:
        running.end()
