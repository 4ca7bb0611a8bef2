"""The driver's virtual memory management on the software GPU, within a process and between processes."""

from __future__ import annotations

import os
import resource
import struct

import pytest

from tests.native.simgpu.program import (
    GIB,
    INVALID_DEVICE,
    INVALID_VALUE,
    MIB,
    NOT_SUPPORTED,
    OUT_OF_MEMORY,
    POSIX_FD,
    SUCCESS,
    Mapping,
    Program,
    Start,
    access,
    given,
    out,
    programs_fixture,
    properties,
)

start = programs_fixture()

TIB = 1 << 40
HINT = 0x600000000000
BLOCK = 2 * MIB


def reserve(program: Program, size: int, hint: int = 0, alignment: int = 0) -> int:
    return program.number("cuMemAddressReserve", out(8), size, alignment, hint, 0)


def create(program: Program, size: int, **chosen: int) -> int:
    return program.number("cuMemCreate", out(8), size, properties(**chosen), 0)


def test_reservations(start: Start) -> None:
    program = start()
    program.start_up()
    assert reserve(program, 4 * TIB, HINT) == HINT
    other = reserve(program, BLOCK, HINT + TIB)  # taken: goes elsewhere
    assert other != HINT + TIB
    assert other % BLOCK == 0
    assert reserve(program, BLOCK, alignment=1 << 30) % (1 << 30) == 0
    for size, alignment in ((0, 0), (BLOCK + 4096, 0), (BLOCK, 3 * MIB)):
        assert program.status("cuMemAddressReserve", out(8), size, alignment, 0, 0) == INVALID_VALUE
    assert program.status("cuMemAddressFree", HINT, TIB) == INVALID_VALUE
    program.ok("cuMemAddressFree", HINT, 4 * TIB)
    assert program.status("cuMemAddressFree", HINT, 4 * TIB) == INVALID_VALUE
    assert reserve(program, BLOCK, HINT) == HINT


def test_granularity(start: Start) -> None:
    program = start()
    program.start_up()
    for option in (0, 1):
        assert program.number("cuMemGetAllocationGranularity", out(8), properties(), option) == BLOCK
    assert program.status("cuMemCreate", out(8), BLOCK + 4096, properties(), 0) == INVALID_VALUE
    assert program.status("cuMemCreate", out(8), BLOCK, properties(device=1), 0) == INVALID_DEVICE
    assert program.status("cuMemCreate", out(8), BLOCK, properties(handle_types=8), 0) == NOT_SUPPORTED


def test_several_mappings_of_one_block_and_none_of_a_part(start: Start) -> None:
    program = start()
    program.start_up()
    handle = create(program, 3 * BLOCK)
    base = reserve(program, 8 * BLOCK, HINT)
    whole, again = base, base + 4 * BLOCK
    for address in (whole, again):
        program.ok("cuMemMap", address, 3 * BLOCK, 0, handle, 0)
        program.ok("cuMemSetAccess", address, 3 * BLOCK, access(0), 1)
    program.write(whole + 2 * BLOCK + 100, b"seen twice")
    assert program.read(again + 2 * BLOCK + 100, 10) == b"seen twice"
    for size, offset in ((1, 0), (2, 0), (4, 0), (1, 1), (2, 1), (3, 1)):  # as driver 580 answers on an H200
        assert program.status("cuMemMap", whole, size * BLOCK, offset * BLOCK, handle, 0) == NOT_SUPPORTED
    for address in (
        whole + BLOCK,  # something is there
        base + 7 * BLOCK,  # leaves the reservation
        base + 3 * BLOCK + 4096,
    ):
        assert program.status("cuMemMap", address, 3 * BLOCK, 0, handle, 0) == INVALID_VALUE
    assert program.status("cuMemUnmap", whole, BLOCK) == INVALID_VALUE  # only whole mappings
    program.ok("cuMemUnmap", whole, 3 * BLOCK)
    assert program.read(again + 2 * BLOCK + 100, 10) == b"seen twice"
    assert program.status("cuMemcpyDtoH_v2", out(1), whole, 1) == INVALID_VALUE


def test_a_copy_may_cross_neighbouring_blocks(start: Start) -> None:
    program = start()
    program.start_up()
    base = reserve(program, 4 * BLOCK)
    for index in range(2):
        program.ok("cuMemMap", base + index * BLOCK, BLOCK, 0, create(program, BLOCK), 0)
    program.ok("cuMemSetAccess", base, 2 * BLOCK, access(0), 1)
    program.write(base + BLOCK - 3, b"across")
    assert program.read(base + BLOCK, 3) == b"oss"
    assert program.status("cuMemsetD8_v2", base + BLOCK, 1, BLOCK + 1) == INVALID_VALUE
    program.ok("cuMemUnmap", base, 2 * BLOCK)


def test_access(start: Start) -> None:
    program = start(TORPOR_SIM_DEVICES="2")
    program.start_up()
    handle, base = create(program, BLOCK), reserve(program, BLOCK)
    assert program.status("cuMemSetAccess", base, BLOCK, access(0), 1) == INVALID_VALUE  # nothing mapped
    program.ok("cuMemMap", base, BLOCK, 0, handle, 0)
    assert program.status("cuMemcpyDtoH_v2", out(1), base, 1) == INVALID_VALUE
    location = [given(struct.pack("<ii", 1, device)) for device in range(2)]
    program.ok("cuMemSetAccess", base, BLOCK, access(0), 1)
    assert program.read(base, 1) == b"\0"
    assert program.number("cuMemGetAccess", out(8), location[0], base) == 3
    assert program.number("cuMemGetAccess", out(8), location[1], base) == 0
    program.ok("cuMemSetAccess", base, BLOCK, access(0, 1), 2)
    assert program.number("cuMemGetAccess", out(8), location[1], base) == 3
    program.ok("cuMemSetAccess", base, BLOCK, access(0, 1, flags=0), 2)
    assert program.status("cuMemcpyDtoH_v2", out(1), base, 1) == INVALID_VALUE
    assert program.status("cuMemSetAccess", base, BLOCK, access(5), 1) == INVALID_DEVICE


def test_memory_lives_as_long_as_a_handle_or_a_mapping(start: Start) -> None:
    program = start(TORPOR_SIM_MEMORY="64M")
    program.start_up()
    mapped = Mapping(program, 32 * MIB)
    again = program.number("cuMemRetainAllocationHandle", out(8), mapped.address + BLOCK)
    assert again == mapped.handle
    program.ok("cuMemRelease", mapped.handle)
    program.ok("cuMemRelease", mapped.handle)
    assert program.status("cuMemRelease", mapped.handle) == INVALID_VALUE
    assert program.free_memory() == 32 * MIB
    assert program.number("cuMemRetainAllocationHandle", out(8), mapped.address) == mapped.handle
    program.ok("cuMemRelease", mapped.handle)
    assert program.status("cuMemCreate", out(8), 34 * MIB, properties(), 0) == OUT_OF_MEMORY
    program.ok("cuMemUnmap", mapped.address, mapped.size)
    assert program.free_memory() == 64 * MIB
    create(program, 64 * MIB)


def test_properties_come_back(start: Start) -> None:
    program = start(TORPOR_SIM_DEVICES="2")
    program.start_up()
    handle = create(program, BLOCK, device=1)
    raw = program.ok("cuMemGetAllocationPropertiesFromHandle", out(32), handle)[0]
    assert struct.unpack_from("<iiii", raw) == (1, POSIX_FD, 1, 1)


def test_a_block_goes_to_another_process(start: Start) -> None:
    maker, taker = start(), start()
    maker.start_up()
    taker.start_up()
    mapped = Mapping(maker, 8 * MIB)
    maker.write(mapped.address + 5 * MIB, b"from the maker")
    fd = taker.python(f"adopt({maker.pid}, {mapped.export()})")
    handle = taker.number("cuMemImportFromShareableHandle", out(8), fd, POSIX_FD)
    taker.python(f"os.close({fd})")
    base = reserve(taker, 8 * MIB, HINT)
    taker.ok("cuMemMap", base, 8 * MIB, 0, handle, 0)
    taker.ok("cuMemSetAccess", base, 8 * MIB, access(0), 1)
    assert taker.read(base + 5 * MIB, 14) == b"from the maker"
    taker.write(base, b"and back")
    assert maker.read(mapped.address, 8) == b"and back"
    # It counts once, and an imported handle cannot be exported again.
    assert taker.free_memory() == 16 * GIB - 8 * MIB
    assert taker.status("cuMemExportToShareableHandle", out(4), handle, POSIX_FD, 0) == INVALID_VALUE
    maker.kill()
    assert taker.read(base + 5 * MIB, 14) == b"from the maker"
    assert taker.free_memory() == 16 * GIB - 8 * MIB
    taker.kill()
    assert start_fresh(start).free_memory() == 16 * GIB


def start_fresh(start: Start, **env: str) -> Program:
    program = start(**env)
    program.start_up()
    return program


def test_a_descriptor_alone_keeps_the_memory_alive(start: Start) -> None:
    maker, watcher = start_fresh(start), start_fresh(start)
    mapped = Mapping(maker, 64 * MIB)
    maker.write(mapped.address, b"still here")
    held = os.open(f"/proc/{maker.pid}/fd/{mapped.export()}", os.O_RDWR)  # this process never uses the driver
    maker.kill()
    assert watcher.free_memory() == 16 * GIB - 64 * MIB
    taken = watcher.python(f"adopt({os.getpid()}, {held})")
    handle = watcher.number("cuMemImportFromShareableHandle", out(8), taken, POSIX_FD)
    base = reserve(watcher, 64 * MIB)
    watcher.ok("cuMemMap", base, 64 * MIB, 0, handle, 0)
    watcher.ok("cuMemSetAccess", base, 64 * MIB, access(0), 1)
    assert watcher.read(base, 10) == b"still here"
    watcher.ok("cuMemUnmap", base, 64 * MIB)
    watcher.ok("cuMemRelease", handle)
    watcher.python(f"os.close({taken})")
    assert watcher.free_memory() == 16 * GIB - 64 * MIB
    os.close(held)
    assert watcher.free_memory() == 16 * GIB


def test_released_but_exported_memory_counts_until_the_descriptor_is_closed(start: Start) -> None:
    program = start_fresh(start)
    mapped = Mapping(program, 4 * MIB)
    fd = mapped.export()
    mapped.drop()
    assert program.free_memory() == 16 * GIB - 4 * MIB
    program.python(f"os.close({fd})")
    assert program.free_memory() == 16 * GIB


@pytest.mark.parametrize("what", ["os.open('/dev/null', os.O_RDWR)", "os.memfd_create('other')", "-1", "12345"])
def test_only_blocks_can_be_imported(start: Start, what: str) -> None:
    program = start_fresh(start)
    fd = program.python(what)
    assert program.status("cuMemImportFromShareableHandle", out(8), fd, POSIX_FD) == INVALID_VALUE


def test_a_block_of_a_device_that_is_not_visible_is_refused(start: Start) -> None:
    maker = start_fresh(start, TORPOR_SIM_DEVICES="2")
    taker = start_fresh(start, TORPOR_SIM_DEVICES="2", CUDA_VISIBLE_DEVICES="1")
    fd = taker.python(f"adopt({maker.pid}, {Mapping(maker, BLOCK).export()})")
    assert taker.status("cuMemImportFromShareableHandle", out(8), fd, POSIX_FD) == INVALID_DEVICE
    # The device's number is the taker's own.
    other = taker.python(f"adopt({maker.pid}, {Mapping(maker, BLOCK, device=1).export()})")
    handle = taker.number("cuMemImportFromShareableHandle", out(8), other, POSIX_FD)
    raw = taker.ok("cuMemGetAllocationPropertiesFromHandle", out(32), handle)[0]
    assert struct.unpack_from("<iiii", raw)[3] == 0


def test_unmapping_waits_for_work_on_the_range(start: Start) -> None:
    program = start_fresh(start)
    mapped = Mapping(program, BLOCK)
    stream = program.number("cuStreamCreate", out(8), 1)
    flag = program.number("cuMemHostAlloc", out(8), 4, 0)
    program.ok("cuStreamWaitValue32_v2", stream, flag, 1, 0)
    program.ok("cuMemsetD8Async", mapped.address, 7, BLOCK, stream)
    program.begin("cuMemUnmap", mapped.address, BLOCK)
    program.poke(flag, struct.pack("<I", 1))
    assert program.finish() == SUCCESS
    program.ok("cuStreamSynchronize", stream)


def test_many_blocks(start: Start) -> None:
    """More blocks than the soft limit of descriptors allows at first."""
    program = start_fresh(start)
    program.python("__import__('resource').setrlimit(__import__('resource').RLIMIT_NOFILE, (512, 4096))")
    base = reserve(program, 1000 * BLOCK)
    for index in range(1000):
        program.ok("cuMemMap", base + index * BLOCK, BLOCK, 0, create(program, BLOCK), 0)
    program.ok("cuMemSetAccess", base, 1000 * BLOCK, access(0), 1)
    program.write(base + 999 * BLOCK, b"last")
    assert program.free_memory() == 16 * GIB - 1000 * BLOCK
    assert all(int(fd) >= 300 for fd, target in program.python("descriptors()").items() if "simgpu" in target)


def test_a_limit_on_files_ends_nobody(start: Start) -> None:
    """Where blocks are files there are none then, but the program goes on."""
    program = start_fresh(start)
    program.python("__import__('signal').signal(25, 0) and None")  # SIGXFSZ, which Python ignores
    resource.prlimit(program.pid, resource.RLIMIT_FSIZE, (BLOCK // 2, resource.RLIM_INFINITY))
    assert program.status("cuMemCreate", out(8), BLOCK, properties(), 0) == OUT_OF_MEMORY


def test_host_memory_can_be_mapped_too(start: Start) -> None:
    program = start_fresh(start)
    handle = program.number("cuMemCreate", out(8), BLOCK, properties(location_type=3), 0)
    base = reserve(program, BLOCK, HINT)
    program.ok("cuMemMap", base, BLOCK, 0, handle, 0)
    both = given(struct.pack("<iii iii", 1, 0, 3, 3, 0, 3))
    program.ok("cuMemSetAccess", base, BLOCK, both, 2)
    program.write(base, b"host")
    assert bytes.fromhex(program.python(f"peek({base}, 4)")) == b"host"
    assert program.free_memory() == 16 * GIB
