"""Every symbol of the driver is exported; what is missing says so and is listed; cuGetProcAddress picks as asked."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from functools import cache

import pytest

from tests.conftest import REPOSITORY
from tests.native.simgpu.program import (
    INVALID_VALUE,
    NOT_FOUND,
    NOT_INITIALIZED,
    NOT_SUPPORTED,
    SUCCESS,
    Program,
    Start,
    given,
    out,
    programs_fixture,
    software_gpu,
)

start = programs_fixture()

DEFAULT, LEGACY, PER_THREAD = 0, 1, 2
FOUND, UNKNOWN, TOO_OLD = 0, 1, 2
DESCRIBED = (REPOSITORY / "native/abi/symbols.inc").read_text()
LISTED = REPOSITORY / "tests/native/simgpu/missing.txt"


def described() -> set[str]:
    """The driver's symbols as the generated list has them."""
    found = set(re.findall(r"^TORPOR_EXPORT(?:_UNTYPED)?\((\w+)\)", DESCRIBED, re.MULTILINE))
    assert len(found) > 600
    return found


def answers() -> Iterator[tuple[str, int, str, str]]:
    for base, since, symbol, per_thread in re.findall(
        r"^TORPOR_ANSWER\((\w+), (\d+), (\w+), (\w+)\)", DESCRIBED, re.MULTILINE
    ):
        yield base, int(since), symbol, per_thread


@cache
def exported() -> dict[str, int]:
    """Symbols of the library and their offsets."""
    listing = subprocess.run(
        ["nm", "-D", "--defined-only", str(software_gpu())], capture_output=True, text=True, check=True
    )
    return {name: int(offset, 16) for offset, _kind, name in map(str.split, listing.stdout.splitlines())}


def missing(program: Program) -> list[str]:
    """What the library itself says is missing."""
    ask = "(setattr(cuda().torporSimMissing, 'restype', ctypes.c_char_p), cuda().torporSimMissing({}))[1]"
    names: list[str] = []
    while name := program.python(f"({ask.format(len(names))} or b'').decode()"):
        names.append(name)
    return names


def test_the_library_exports_the_driver_and_its_own_two() -> None:
    assert set(exported()) == described() | {"torporSimVersion", "torporSimMissing", "torporSimBusy"}


def test_it_needs_nothing_but_libc() -> None:
    dynamic = subprocess.run(["readelf", "-d", str(software_gpu())], capture_output=True, text=True, check=True).stdout
    assert "soname: [libcuda.so.1]" in dynamic
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))
    assert needed <= {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "libpthread.so.0"}


def test_what_is_missing_is_listed(start: Start) -> None:
    """A call that is implemented leaves the list, in the same commit; nothing joins it."""
    assert missing(start()) == LISTED.read_text().split()


def test_what_is_missing_says_so(start: Start) -> None:
    program = start()
    names = missing(program)
    assert program.status(names[0]) == NOT_INITIALIZED
    program.ok("cuInit", 0)
    assert {name: program.status(name) for name in names if program.status(name) != NOT_SUPPORTED} == {}


def offset(program: Program, address: int) -> int:
    """Of a function in the library."""
    line = program.python("next(l for l in open('/proc/self/maps') if 'libcuda.so.1' in l)")
    return address - int(line.split("-")[0], 16)


def ask(program: Program, name: str, version: int, flags: int) -> tuple[int, int, int]:
    """The call's status, the offset of what it gave (0: none), and what it says of the symbol."""
    status, outputs = program.call("cuGetProcAddress_v2", given(name.encode() + b"\0"), out(8), version, flags, out(4))
    address, found = (int.from_bytes(each, "little") for each in outputs)
    return status, offset(program, address) if address else 0, found


@pytest.mark.parametrize("flags", [DEFAULT, LEGACY, PER_THREAD])
def test_the_newest_that_the_version_allows(start: Start, flags: int) -> None:
    program = start()
    expected: dict[tuple[str, int], str] = {}
    rows = list(answers())
    for base in {row[0] for row in rows}:
        versions = sorted({row[1] for row in rows if row[0] == base and row[1] <= 13000})
        for version in versions:
            fitting = [
                row[3] if flags == PER_THREAD else row[2] for row in rows if row[0] == base and row[1] <= version
            ]
            chosen = [symbol for symbol in fitting if symbol != "TORPOR_NONE"]
            if chosen:
                expected[base, version] = chosen[-1]
    assert len(expected) > 400
    for (base, version), symbol in expected.items():
        assert ask(program, base, version, flags) == (SUCCESS, exported()[symbol], FOUND), (base, version)


def test_names_and_versions_that_are_not_there(start: Start) -> None:
    program = start()
    assert ask(program, "cuNoSuchCall", 13000, DEFAULT) == (SUCCESS, 0, UNKNOWN)
    assert ask(program, "cuMemAlloc_v2", 13000, DEFAULT) == (SUCCESS, 0, UNKNOWN)  # not a base name
    assert ask(program, "cuMemCreate", 10000, DEFAULT) == (SUCCESS, 0, TOO_OLD)
    assert ask(program, "cuMemcpyHtoD", 5000, PER_THREAD) == (SUCCESS, 0, TOO_OLD)
    name = given(b"cuNoSuchCall\0")
    assert program.status("cuGetProcAddress_v2", name, out(8), 13000, 0, None) == NOT_FOUND
    assert program.status("cuGetProcAddress", name, out(8), 13000, 0) == NOT_FOUND
    assert program.status("cuGetProcAddress", name, None, 13000, 0) == INVALID_VALUE
    assert program.status("cuGetProcAddress", given(b"cuInit\0"), out(8), 13000, 64) == INVALID_VALUE


def test_an_older_driver_does_not_know_newer_calls(start: Start) -> None:
    program = start(TORPOR_SIM_DRIVER_VERSION="12040")
    assert ask(program, "cuCtxCreate", 13000, DEFAULT)[1] == exported()["cuCtxCreate_v3"]
    assert ask(program, "cuCheckpointProcessLock", 13000, DEFAULT) == (SUCCESS, 0, TOO_OLD)


def test_every_status_has_a_name_and_a_text(start: Start) -> None:
    program = start()
    header = (REPOSITORY / "native/abi/cuda_driver.h").read_text()
    statuses = {int(value): name for name, value in re.findall(r"(CUDA_(?:SUCCESS|ERROR_\w+)) = (\d+)", header)}
    assert len(statuses) > 90
    for value, name in statuses.items():
        pointer = program.number("cuGetErrorName", value, out(8))
        assert program.python(f"ctypes.string_at({pointer}).decode()") == name
        text = program.number("cuGetErrorString", value, out(8))
        assert program.python(f"ctypes.string_at({text}).decode()") not in ("", "unknown error") or value == 999
    assert program.status("cuGetErrorName", 12345, out(8)) == INVALID_VALUE
    assert program.status("cuGetErrorString", 1, None) == INVALID_VALUE


def test_there_are_no_private_tables(start: Start) -> None:
    assert start().status("cuGetExportTable", out(8), given(bytes(16))) == INVALID_VALUE
