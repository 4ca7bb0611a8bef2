"""Putting registered memory into files ends where it is in vain, by figures and in a program."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.native.arena.harness import SUCCESS, Program
from tests.native.compiled import compiled
from tests.native.registered.memory import (
    SIZE,
    area,
    count,
    in_a_file,
    is_private,
    register,
    with_library,
)

SECOND = 1_000_000_000


def test_what_is_worth_it() -> None:
    subprocess.run([compiled("tests/native/registered/worth_test.cpp")], check=True)


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    with with_library(tmp_path, "clock.cpp") as (running, clock):
        running.execute(f"hurry = ctypes.CDLL({str(clock)!r}).hurry")
        running.start_up()
        yield running


def in_a_file_meanwhile(program: Program, address: int, byte: int) -> bool:
    """Registers, uses and unregisters it; whether it was in a file."""
    program.execute(f"fill({address}, {SIZE}, {byte})")
    assert register(program, address) == SUCCESS
    lay = in_a_file(program, address)
    assert program.value(f"is_full_of({address}, {SIZE}, {byte})")
    program.fill(address, SIZE, byte + 1)
    program.ok("cuMemHostUnregister", address)
    assert program.value(f"is_full_of({address}, {SIZE}, {byte + 1})")
    assert is_private(program, address)
    return lay


@pytest.mark.criu  # for the right to make threads wait
def test_after_ten_seconds_in_vain_memory_is_the_drivers(program: Program) -> None:
    kept, address = area(program), area(program)
    program.execute(f"fill({kept}, {SIZE}, 99)")
    assert register(program, kept) == SUCCESS
    program.execute(f"hurry(ctypes.c_int64({SECOND}))")
    assert [in_a_file_meanwhile(program, address, byte) for byte in range(1, 8)] == [True] * 5 + [False] * 2
    program.execute("hurry(ctypes.c_int64(0))")
    assert in_a_file(program, kept)  # what is there remains, and comes back
    assert count(program) == {"count": 1, "bytes": SIZE}
    program.ok("cuMemHostUnregister", kept)
    assert is_private(program, kept)
    assert program.value(f"is_full_of({kept}, {SIZE}, 99)")
    assert not in_a_file_meanwhile(program, area(program), 5)
    assert count(program) == {"count": 0, "bytes": 0}
