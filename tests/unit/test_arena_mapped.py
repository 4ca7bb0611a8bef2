"""Memory that a program maps itself: every call answers as the driver's does, handles included."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest

from tests.native.arena.harness import HELLO, MIB, Program, out, program_fixture

program = program_fixture()
plain = program_fixture(TORPOR_ARENA="off")

GRAIN = 2 * MIB
DEVICE, HOST = 1, 2
WRITE = {"bytes": struct.pack("<IiI", DEVICE, 0, 3).hex()}
ALLOWED_HANDLE_TYPES = 14


def properties(handle_types: int = 0, location: int = DEVICE) -> dict[str, str]:
    return {"bytes": (struct.pack("<IIIi", 1, handle_types, location, 0) + bytes(16)).hex()}


def create(running: Program, handle_types: int = 0, grains: int = 1) -> int:
    return running.number("cuMemCreate", out(8), grains * GRAIN, properties(handle_types), 0)


def show(running: Program, handle: int, grains: int = 1) -> int:
    address = running.number("cuMemAddressReserve", out(8), grains * GRAIN, 0, 0, 0)
    running.ok("cuMemMap", address, grains * GRAIN, 0, handle, 0)
    running.ok("cuMemSetAccess", address, grains * GRAIN, WRITE, 1)
    return address


def freed_twice(running: Program) -> list[int]:
    handle = create(running)
    return [running.cuMemRelease(handle)[0], running.cuMemRelease(handle)[0]]


def used_after_release(running: Program) -> list[int]:
    handle = create(running)
    address = show(running, handle)
    running.ok("cuMemRelease", handle)
    other = running.number("cuMemAddressReserve", out(8), GRAIN, 0, 0, 0)
    return [
        running.cuMemMap(other, GRAIN, 0, handle, 0)[0],
        running.cuMemExportToShareableHandle(out(4), handle, 1, 0)[0],
        running.cuMemsetD8_v2(address, 1, GRAIN)[0],
        running.cuMemUnmap(address, GRAIN)[0],
        running.cuMemsetD8_v2(address, 1, GRAIN)[0],
    ]


def exported_without_having_asked(running: Program) -> list[int]:
    return [running.cuMemExportToShareableHandle(out(4), create(running, kind), 1, 0)[0] for kind in (0, 1)]


def imported_and_exported_again(running: Program) -> list[int]:
    fd = running.number("cuMemExportToShareableHandle", out(4), create(running, 1), 1, 0)
    imported = running.number("cuMemImportFromShareableHandle", out(8), fd, 1)
    return [running.cuMemExportToShareableHandle(out(4), imported, 1, 0)[0]]


def wrong_sizes(running: Program) -> list[int]:
    handle = create(running)
    address = running.number("cuMemAddressReserve", out(8), 4 * GRAIN, 0, 0, 0)
    return [
        running.cuMemCreate(out(8), GRAIN + 1, properties(), 0)[0],
        running.cuMemCreate(out(8), 1 << 50, properties(), 0)[0],
        running.cuMemCreate(None, GRAIN, properties(), 0)[0],
        running.cuMemCreate(out(8), GRAIN, properties(), 1)[0],
        running.cuMemMap(address, 2 * GRAIN, 0, handle, 0)[0],
        running.cuMemMap(address, GRAIN, GRAIN, handle, 0)[0],
        running.cuMemMap(address, GRAIN, 0, 12345, 0)[0],
        running.cuMemUnmap(address, GRAIN)[0],
    ]


def attributes(running: Program) -> list[int]:
    return [
        running.number("cuPointerGetAttribute", out(8), ALLOWED_HANDLE_TYPES, show(running, create(running, kind)))
        for kind in (0, 1)
    ]


def told_properties(running: Program) -> list[int]:
    found = []
    for kind in (0, 1):
        [raw] = running.ok("cuMemGetAllocationPropertiesFromHandle", out(32), create(running, kind))
        found += struct.unpack("<IIIi", raw[:16])
    return found


@pytest.mark.parametrize(
    "what",
    [
        *(freed_twice, used_after_release, exported_without_having_asked, imported_and_exported_again),
        *(wrong_sizes, attributes, told_properties),
    ],
)
def test_answers_are_the_drivers(program: Program, plain: Program, what: Callable[[Program], Any]) -> None:
    program.start_up()
    plain.start_up()
    assert what(program) == what(plain)


def test_a_retained_handle_is_the_same_and_counts(program: Program) -> None:
    program.start_up()
    handle = create(program, grains=2)
    address = show(program, handle, 2)
    assert program.number("cuMemRetainAllocationHandle", out(8), address + GRAIN) == handle
    program.ok("cuMemRelease", handle)
    program.ok("cuMemRelease", handle)
    assert program.cuMemRelease(handle)[0] != 0
    assert program.number("cuMemRetainAllocationHandle", out(8), address) == handle  # a mapping brings it back
    program.ok("cuMemUnmap", address, 2 * GRAIN)
    program.ok("cuMemRelease", handle)
    assert program.cuMemRelease(handle)[0] != 0


@pytest.mark.parametrize("location", [DEVICE, HOST])
def test_a_thread_without_a_context_can_make_memory(program: Program, location: int) -> None:
    program.ok("cuInit", 0)
    address = program.number("cuMemAddressReserve", out(8), GRAIN, 0, 0, 0)
    handle = program.number("cuMemCreate", out(8), GRAIN, properties(0, location), 0)
    program.ok("cuMemMap", address, GRAIN, 0, handle, 0)
    program.ok("cuMemSetAccess", address, GRAIN, WRITE, 1)
    assert program.number("cuCtxGetCurrent", out(8)) == 0
    with program.control() as control:
        assert control.json(HELLO)["blocks"]["count"] == (1 if location == DEVICE else 0)
        control.cycle()
    assert program.number("cuCtxGetCurrent", out(8)) == 0
    program.start_up()
    program.fill(address, GRAIN, 3)
    with program.control() as control:
        control.cycle()
    assert program.read(address, GRAIN) == b"\3" * GRAIN
    program.ok("cuMemUnmap", address, GRAIN)
    program.ok("cuMemRelease", handle)


def test_memory_without_a_context_can_be_copied_when_its_descriptor_is_gone(program: Program) -> None:
    program.ok("cuInit", 0)
    program.limit_descriptors(600)
    handle = create(program)
    address = show(program, handle)
    with program.control() as control:
        control.cycle()
        control.cycle()
    program.start_up()
    program.fill(address, GRAIN, 3)
    with program.control() as control:
        control.cycle()
    assert program.read(address, GRAIN) == b"\3" * GRAIN
