"""Copies from and to pinned memory are deferred, and mean what they mean natively."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import eventually
from tests.native.arena.harness import HELLO, MIB, SUCCESS, Program, environment, out


@pytest.fixture
def held(tmp_path: Path) -> Path:
    return tmp_path / "held"


@pytest.fixture
def program(tmp_path: Path, held: Path) -> Iterator[Program]:
    running = Program(tmp_path, environment, TORPOR_VM="always", TORPOR_SIM_FAULT=f"cuMemsetD16Async@1=hang:{held}")
    running.start_up()
    yield running
    held.touch()
    running.end()


def deferred(program: Program) -> int:
    with program.control() as control:
        return int(control.json(HELLO)["vm"]["deferred"])


def pinned(program: Program, size: int) -> int:
    return program.number("cuMemHostAlloc", out(8), size, 0)


def write(program: Program, address: int, data: bytes) -> None:
    program.execute(f"ctypes.memmove({address}, {data!r}, {len(data)})")


def text_at(program: Program, address: int, size: int) -> str:
    return str(program.value(f"ctypes.string_at({address}, {size}).hex()"))


def test_what_is_copied_out_arrives_although_nobody_asks(program: Program) -> None:
    """A program may look for the bytes themselves, and make no call until they are there."""
    memory, host = program.allocate(MIB), pinned(program, 4096)
    stream = program.number("cuStreamCreate", out(8), 1)
    program.ok("cuMemsetD8Async", memory, 7, 4096, stream)
    for round_ in range(1, 20):
        write(program, host, bytes(64))
        before = deferred(program)
        program.ok("cuMemsetD8Async", memory, round_, 64, stream)
        program.ok("cuMemcpyDtoHAsync_v2", host, memory, 64, stream)
        assert deferred(program) == before + 2
        eventually(lambda round_=round_: text_at(program, host, 64) == f"{round_:02x}" * 64)


def test_what_is_copied_in_is_read_when_the_stream_gets_there(program: Program, held: Path) -> None:
    memory, host = program.allocate(MIB), pinned(program, 4096)
    program.ok("cuMemsetD8Async", memory, 7, 64, 0)
    write(program, host, b"a" * 64)
    program.ok("cuMemsetD16Async", memory, 2, 8, 0)
    before = deferred(program)
    program.ok("cuMemcpyHtoDAsync_v2", memory, host + 64 - 4, 4, 0)
    program.ok("cuMemcpyHtoDAsync_v2", memory, host + 64 - 4, 4, 0)
    assert deferred(program) == before + 2
    write(program, host, b"b" * 64)
    held.touch()
    assert program.read(memory, 4) == b"bbbb"


def test_other_host_memory_is_read_at_the_call(program: Program) -> None:
    memory, host = program.allocate(MIB), pinned(program, 4096)
    program.ok("cuMemsetD8Async", memory, 7, 64, 0)
    program.execute("kept = ctypes.create_string_buffer(b'x' * 8192)")
    pageable = int(program.value("ctypes.addressof(kept)"))
    before = deferred(program)
    program.ok("cuMemcpyHtoDAsync_v2", memory, pageable, 64, 0)
    program.ok("cuMemcpyDtoHAsync_v2", pageable, memory, 64, 0)
    assert program.call("cuMemcpyHtoDAsync_v2", memory, host + 4000, 200, 0)[0] != SUCCESS  # over its end
    program.ok("cuMemFreeHost", host)
    program.call("cuMemcpyHtoDAsync_v2", memory, host, 64, 0)  # whatever is there now
    program.call("cuMemcpyHtoDAsync_v2", memory + MIB, pageable, 64, 0)
    assert deferred(program) == before


def test_pinned_memory_ends_with_its_context(program: Program) -> None:
    first = program.number("cuCtxGetCurrent", out(8))
    other = program.number("cuCtxCreate_v2", out(8), 0, 0)
    host = pinned(program, 4096)
    program.ok("cuCtxSetCurrent", first)
    memory = program.allocate(MIB)
    program.ok("cuMemsetD8Async", memory, 7, 64, 0)
    program.ok("cuMemcpyHtoDAsync_v2", memory, host, 64, 0)
    before = deferred(program)
    assert before > 0
    program.ok("cuCtxDestroy_v2", other)
    program.call("cuMemcpyHtoDAsync_v2", memory, host, 64, 0)
    assert deferred(program) == before


def test_what_goes_beyond_its_memory_is_for_the_driver_to_judge(program: Program) -> None:
    size = 2 * MIB  # as much as the driver gives out at once
    memory, host = program.allocate(size), pinned(program, 4096)
    program.ok("cuMemsetD8Async", memory, 7, 64, 0)
    program.ok("cuMemsetD8Async", memory + size - 64, 7, 64, 0)
    program.ok("cuMemcpyHtoDAsync_v2", memory + size - 64, host, 64, 0)
    before = deferred(program)
    assert before == 2
    assert program.call("cuMemsetD8Async", memory + size - 64, 7, 65, 0)[0] != SUCCESS
    assert program.call("cuMemsetD32Async", memory + size - 64, 7, 17, 0)[0] != SUCCESS
    assert program.call("cuMemcpyHtoDAsync_v2", memory + size - 63, host, 64, 0)[0] != SUCCESS
    assert program.call("cuMemcpyDtoHAsync_v2", host, memory + size - 63, 64, 0)[0] != SUCCESS
    assert program.call("cuMemcpyDtoDAsync_v2", memory, memory + size - 63, 64, 0)[0] != SUCCESS
    assert deferred(program) == before
