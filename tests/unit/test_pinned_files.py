"""Large pinned host memory lies in files without names; the program cannot tell."""

from __future__ import annotations

import re

import pytest

from tests.native.arena.harness import (
    HELLO,
    INVALID_VALUE,
    MIB,
    RELEASE,
    SUCCESS,
    THAW,
    Program,
    out,
    program_fixture,
)

PLACE = "/dev/shm"  # a file system of its own, as the job's is
program = program_fixture(TORPOR_PINNED=PLACE)
deferring = program_fixture(TORPOR_PINNED=PLACE, TORPOR_VM="always")
driver_only = program_fixture(TORPOR_PINNED="driver")
no_arena = program_fixture(TORPOR_PINNED=PLACE, TORPOR_ARENA="off")
no_file_system = program_fixture(TORPOR_PINNED="/proc/self")
never_registers = program_fixture(TORPOR_PINNED=PLACE, TORPOR_SIM_FAULT="cuMemHostRegister@1+=fail:999")

PORTABLE, DEVICEMAP, WRITECOMBINED = 1, 2, 4
COMPARED = [2, 8, 9, 10, 12, 13, 14, 17]
"""Pointer attributes whose value is no address and no number of this process's."""
MAPPING_SIZE = 18


def allocate(running: Program, size: int, flags: int = 0) -> int:
    return running.number("cuMemHostAlloc", out(8), size, flags)


def in_a_file(running: Program, address: int) -> bool:
    """Whether the memory at that address is mapped from a file of ours; it must be mapped."""
    maps = str(running.value("open('/proc/self/maps').read()"))
    for line in maps.splitlines():
        start, stop = (int(part, 16) for part in line.split()[0].split("-"))
        if start <= address < stop:
            return re.search(r" rw-s .* /dev/shm/#\d+ \(deleted\)$", line) is not None
    raise AssertionError(f"nothing is mapped at {address:#x}")


def mapped(running: Program, address: int) -> bool:
    return bool(running.value(f"'{address:x}-' in open('/proc/self/maps').read()"))


def count(running: Program) -> dict[str, int]:
    with running.control() as control:
        found: dict[str, int] = control.json(HELLO)["pinned"]
        return found


def flags_of(running: Program, address: int) -> int:
    return running.number("cuMemHostGetFlags", out(4), address)


@pytest.mark.parametrize("call", ["cuMemHostAlloc", "cuMemAllocHost_v2"])
def test_both_sides_see_the_same_bytes(program: Program, call: str) -> None:
    program.start_up()
    size = 5 * MIB + 100
    address = program.number(call, out(8), size, *([0] if call == "cuMemHostAlloc" else []))
    assert in_a_file(program, address)
    assert program.read(address + size - 8, 8) == bytes(8)
    program.fill(address, size, 7)
    assert program.value(f"ctypes.string_at({address + size - 4}, 4).hex()") == "07070707"
    program.execute(f"ctypes.memset({address}, 8, {size})")
    assert program.read(address, 100) == b"\10" * 100
    assert count(program) == {"count": 1, "bytes": size}
    program.ok("cuMemFreeHost", address)
    assert not mapped(program, address)
    assert program.call("cuMemFreeHost", address)[0] == INVALID_VALUE
    assert count(program) == {"count": 0, "bytes": 0}


def test_small_and_write_combined_memory_is_the_drivers(program: Program) -> None:
    program.start_up()
    assert not in_a_file(program, allocate(program, 4 * MIB - 1))
    assert not in_a_file(program, allocate(program, 8 * MIB, WRITECOMBINED))
    assert program.call("cuMemHostAlloc", out(8), 8 * MIB, 0x100)[0] == INVALID_VALUE


@pytest.mark.parametrize("kind", ["driver_only", "no_arena", "no_file_system", "never_registers"])
def test_without_a_place_all_is_the_drivers(request: pytest.FixtureRequest, kind: str) -> None:
    running: Program = request.getfixturevalue(kind)
    running.start_up()
    address = allocate(running, 8 * MIB)
    assert not in_a_file(running, address)
    assert count(running) == {"count": 0, "bytes": 0}
    running.fill(address, 8 * MIB, 7)
    running.ok("cuMemFreeHost", address)


def test_a_limit_on_files_is_none_on_memory(program: Program) -> None:
    program.start_up()
    program.execute(
        f"""
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # which Python ignores, and other programs are killed by
resource.setrlimit(resource.RLIMIT_FSIZE, ({6 * MIB}, resource.RLIM_INFINITY))
"""
    )
    assert in_a_file(program, allocate(program, 6 * MIB))
    address = allocate(program, 8 * MIB)
    assert not in_a_file(program, address)
    program.fill(address, 8 * MIB, 7)
    program.ok("cuMemFreeHost", address)


@pytest.mark.parametrize("flags", [0, PORTABLE, PORTABLE | DEVICEMAP])
def test_answers_are_those_of_driver_memory(program: Program, driver_only: Program, flags: int) -> None:
    size = 5 * MIB
    seen = []
    for running in (program, driver_only):
        context = running.start_up()
        address = allocate(running, size, flags)
        inside = address + 4096
        assert running.number("cuMemHostGetDevicePointer_v2", out(8), address, 0) == address
        assert running.number("cuPointerGetAttribute", out(8), 1, inside) == context
        base, length = running.ok("cuMemGetAddressRange_v2", out(8), out(8), inside)
        assert int.from_bytes(base, "little") == address
        facts = [running.call("cuPointerGetAttribute", out(8), which, inside) for which in COMPARED]
        refused = [
            running.call(*call)[0]
            for call in (
                ("cuMemHostRegister_v2", address, 4096, 0),
                ("cuMemHostUnregister", address),
                ("cuMemFreeHost", inside),
                ("cuMemFree_v2", address),
                ("cuMemHostGetDevicePointer_v2", out(8), address, 1),
            )
        ]
        seen.append((flags_of(running, address), int.from_bytes(length, "little"), facts, refused))
    assert seen[0] == seen[1]
    assert seen[0][0] == flags | DEVICEMAP
    assert INVALID_VALUE in seen[0][3]
    assert SUCCESS not in seen[0][3]


def test_mappings_are_of_whole_huge_pages(program: Program) -> None:
    program.start_up()
    for size, there in ((8 * MIB, 8 * MIB), (8 * MIB + 100, 10 * MIB)):  # as an H200 says
        address = allocate(program, size)
        assert program.number("cuPointerGetAttribute", out(8), MAPPING_SIZE, address) == there


def test_it_goes_with_its_context(program: Program) -> None:
    program.start_up()
    kept = allocate(program, 4 * MIB)
    context = program.number("cuCtxCreate_v2", out(8), 0, 0)
    address = allocate(program, 4 * MIB)
    program.ok("cuCtxDestroy_v2", context)
    assert not mapped(program, address)
    assert mapped(program, kept)
    assert count(program)["count"] == 1


def test_a_forked_child_shares_it_and_has_no_part_in_it(program: Program) -> None:
    program.start_up()
    address = allocate(program, 4 * MIB)
    program.fill(address, 4 * MIB, 7)
    program.execute(
        f"""
import os
child = os.fork()
if child == 0:
    seen = ctypes.string_at({address}, 1)[0]
    ctypes.memset({address}, 9, 1)
    os._exit(seen)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""
    )
    assert program.value("status") == 7
    assert program.read(address, 2) == b"\11\7"


def test_copies_of_it_are_deferred(deferring: Program) -> None:
    deferring.start_up()
    memory, host = deferring.allocate(MIB), allocate(deferring, 4 * MIB)
    deferring.ok("cuMemsetD8Async", memory, 3, MIB, 0)
    with deferring.control() as control:
        before = control.json(HELLO)["vm"]["deferred"]
        deferring.ok("cuMemcpyDtoHAsync_v2", host + MIB, memory, MIB, 0)
        assert control.json(HELLO)["vm"]["deferred"] == before + 1
    deferring.ok("cuCtxSynchronize")
    assert deferring.value(f"ctypes.string_at({host + 2 * MIB - 2}, 4).hex()") == "03030000"


def test_threads_may_use_it_while_the_job_is_away(program: Program) -> None:
    program.start_up()
    address = allocate(program, 4 * MIB, PORTABLE)
    program.fill(address, 4 * MIB, 7)
    with program.control() as control:
        control.freeze()
        control.json(RELEASE)
        program.execute(f"ctypes.memset({address}, 8, 100)")  # the program's threads do not stand still
        control.json(THAW)
    assert program.read(address + 98, 4) == b"\10\10\7\7"
    assert flags_of(program, address) == PORTABLE | DEVICEMAP
    program.ok("cuMemFreeHost", address)


def test_the_more_there_are_the_larger_they_must_be(program: Program) -> None:
    program.start_up()
    program.execute(
        """
library = ctypes.CDLL("libcuda.so.1")
for _ in range(256):
    assert library.cuMemHostAlloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(4 << 20), 0) == 0
"""
    )
    assert count(program)["count"] == 256
    assert not in_a_file(program, allocate(program, 32 * MIB))
    assert in_a_file(program, allocate(program, 64 * MIB))


def test_errno_is_left_alone(program: Program) -> None:
    program.start_up()
    program.execute(
        """
library = ctypes.CDLL("libcuda.so.1", use_errno=True)
ctypes.set_errno(77)
made = ctypes.c_void_p()
assert library.cuMemHostAlloc(ctypes.byref(made), ctypes.c_size_t(4 << 20), 0) == 0
assert library.cuMemFreeHost(made) == 0
left = ctypes.get_errno()
"""
    )
    assert program.value("left") == 77


def test_a_child_has_no_descriptor_of_a_file(program: Program) -> None:
    """Forks while files are made."""
    program.start_up()
    program.execute(
        """
import threading
found, done = 0, False
def forks():
    global found
    while not done:
        child = os.fork()
        if child == 0:
            os._exit(any(name.startswith('/dev/shm/') for name in open_files().values()))
        found += os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
forking = threading.Thread(target=forks)
forking.start()
"""
    )
    for _time in range(20):
        program.ok("cuMemFreeHost", allocate(program, 64 * MIB))
    program.execute("done = True; forking.join()")
    assert program.value("found") == 0
