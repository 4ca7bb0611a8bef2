"""Device memory, host memory, copies and fills on the software GPU."""

from __future__ import annotations

import os
import random
import struct

import pytest

from tests.native.simgpu.program import (
    GIB,
    INVALID_CONTEXT,
    INVALID_VALUE,
    MIB,
    NOT_FOUND,
    OUT_OF_MEMORY,
    SUCCESS,
    Mapping,
    Program,
    Start,
    given,
    out,
    programs_fixture,
)

start = programs_fixture()

CONTEXT, MEMORY_TYPE, BUFFER_ID, IS_MANAGED, ORDINAL, IPC_CAPABLE, RANGE_START, RANGE_SIZE = 1, 2, 7, 8, 9, 10, 11, 12
HOST, DEVICE = 1, 2


def test_bytes_come_back_and_new_memory_is_zero(start: Start) -> None:
    program = start()
    program.start_up()
    address = program.allocate(3 * MIB + 5)
    assert program.read(address + 3 * MIB, 5) == bytes(5)
    data = os.urandom(1000)
    program.write(address + 7, data)
    assert program.read(address + 7, 1000) == data
    program.ok("cuMemFree_v2", address)
    assert program.status("cuMemFree_v2", address) == INVALID_VALUE
    program.ok("cuMemFree_v2", 0)


def test_no_context_no_memory(start: Start) -> None:
    program = start()
    program.ok("cuInit", 0)
    assert program.status("cuMemAlloc_v2", out(8), MIB) == INVALID_CONTEXT
    assert program.status("cuMemGetInfo_v2", out(8), out(8)) == INVALID_CONTEXT


def test_the_configured_size_is_the_limit(start: Start) -> None:
    program = start(TORPOR_SIM_MEMORY="64M")
    program.start_up()
    assert program.free_memory() == 64 * MIB
    assert program.status("cuMemAlloc_v2", out(8), 65 * MIB) == OUT_OF_MEMORY
    assert program.status("cuMemAlloc_v2", out(8), 1 << 62) == OUT_OF_MEMORY
    assert program.status("cuMemAlloc_v2", out(8), (1 << 64) - 1) == OUT_OF_MEMORY
    assert program.status("cuMemAlloc_v2", out(8), 0) == INVALID_VALUE
    addresses = [program.allocate(16 * MIB) for _ in range(4)]
    assert program.free_memory() == 0
    assert program.status("cuMemAlloc_v2", out(8), 1) == OUT_OF_MEMORY
    program.ok("cuMemFree_v2", addresses.pop())
    assert program.free_memory() == 16 * MIB


def test_memory_is_one_for_all_processes_and_free_after_a_kill(start: Start) -> None:
    one, two = start(TORPOR_SIM_MEMORY="1G"), start(TORPOR_SIM_MEMORY="1G")
    one.start_up()
    two.start_up()
    one.allocate(600 * MIB)
    two.allocate(100 * MIB)
    assert two.free_memory() == one.free_memory() == 324 * MIB
    assert two.status("cuMemAlloc_v2", out(8), 500 * MIB) == OUT_OF_MEMORY
    one.kill()
    assert two.free_memory() == 924 * MIB
    two.allocate(500 * MIB)


def test_devices_have_memory_of_their_own(start: Start) -> None:
    program = start(TORPOR_SIM_DEVICES="2", TORPOR_SIM_MEMORY="256M,512M")
    program.start_up(0)
    program.allocate(100 * MIB)
    program.start_up(1)
    assert program.free_memory() == 512 * MIB


@pytest.mark.parametrize("offset", [-1, 4096 - 9, 4096, 1 << 40])
def test_a_copy_outside_an_allocation_is_refused(start: Start, offset: int) -> None:
    program = start()
    program.start_up()
    address = program.allocate(4096)
    assert program.status("cuMemcpyHtoD_v2", address + offset, given(bytes(10)), 10) == INVALID_VALUE
    assert program.status("cuMemcpyDtoH_v2", out(10), address + offset, 10) == INVALID_VALUE
    assert program.status("cuMemsetD8_v2", address + offset, 1, 10) == INVALID_VALUE
    assert program.status("cuMemcpy", address + offset, address, 10) == INVALID_VALUE
    program.write(address + 4086, bytes(10))


def test_address_range_and_pitch(start: Start) -> None:
    program = start()
    program.start_up()
    address = program.allocate(5000)
    base, size = program.ok("cuMemGetAddressRange_v2", out(8), out(8), address + 4999)
    assert (int.from_bytes(base, "little"), int.from_bytes(size, "little")) == (address, 5000)
    assert program.status("cuMemGetAddressRange_v2", out(8), out(8), address + 5000) == NOT_FOUND
    pitched, pitch = (int.from_bytes(b, "little") for b in program.ok("cuMemAllocPitch_v2", out(8), out(8), 1000, 3, 4))
    assert pitch == 1024
    program.write(pitched + 2 * pitch, bytes(1000))
    assert program.status("cuMemAllocPitch_v2", out(8), out(8), 1000, 3, 3) == INVALID_VALUE


@pytest.mark.parametrize(("bits", "value"), [(8, 0xAB), (16, 0xABCD), (32, 0xDEADBEEF)])
def test_fills(start: Start, bits: int, value: int) -> None:
    program = start()
    program.start_up()
    width = bits // 8
    address = program.allocate(4096)
    program.ok(f"cuMemsetD{bits}_v2", address + 8, value, 10)
    pattern = value.to_bytes(width, "little")
    assert program.read(address, 8 + 11 * width) == bytes(8) + pattern * 10 + bytes(width)
    program.ok(f"cuMemsetD2D{bits}_v2", address + 1024, 64, value, 3, 2)
    row = pattern * 3 + bytes(64 - 3 * width)
    assert program.read(address + 1024, 128) == row * 2
    program.ok(f"cuMemsetD{bits}Async", address, value, 1, 0)
    program.ok(f"cuMemsetD2D{bits}Async_ptsz", address + 2048, 64, value, 2, 2, 0)
    program.ok("cuCtxSynchronize")
    assert program.read(address, width) == pattern
    assert program.read(address + 2048 + 64, 2 * width) == pattern * 2
    if width > 1:
        assert program.status(f"cuMemsetD{bits}_v2", address + 1, value, 1) == INVALID_VALUE


def plane(source: int, target: int, width: int, height: int, **at: int) -> dict[str, str]:
    """A CUDA_MEMCPY2D between device addresses."""
    sides = []
    for side, address in (("source", source), ("target", target)):
        sides += [at.get(f"{side}_x", 0), at.get(f"{side}_y", 0), DEVICE, 0, address, 0, at.get(f"{side}_pitch", 0)]
    return given(struct.pack("<QQQQQQQ QQQQQQQ QQ", *sides, width, height))


def box(
    source: int, target: int, extent: tuple[int, int, int], pitches: tuple[int, int], heights: tuple[int, int]
) -> dict[str, str]:
    """A CUDA_MEMCPY3D between device addresses."""
    sides = b""
    for address, pitch, height in zip((source, target), pitches, heights, strict=True):
        sides += struct.pack("<QQQQ QQQQ QQQ", 0, 0, 0, 0, DEVICE, 0, address, 0, 0, pitch, height)
    return given(sides + struct.pack("<QQQ", *extent))


def test_planes(start: Start) -> None:
    program = start()
    program.start_up()
    source, target = program.allocate(4096), program.allocate(4096)
    data = os.urandom(4096)
    program.write(source, data)
    what = plane(source, target, 10, 4, source_x=3, source_y=1, source_pitch=50, target_y=2, target_pitch=20)
    for name, more in (("cuMemcpy2D_v2", []), ("cuMemcpy2DUnaligned_v2", []), ("cuMemcpy2DAsync_v2", [0])):
        program.ok("cuMemsetD8_v2", target, 0, 4096)
        program.ok(name, what, *more)
        program.ok("cuCtxSynchronize")
        expected = bytearray(4096)
        for row in range(4):
            expected[(row + 2) * 20 : (row + 2) * 20 + 10] = data[(row + 1) * 50 + 3 : (row + 1) * 50 + 13]
        assert program.read(target, 4096) == bytes(expected)
    assert program.status("cuMemcpy2D_v2", plane(source, target, 60, 2, source_pitch=50)) == INVALID_VALUE
    assert program.status("cuMemcpy2D_v2", plane(source, target, 64, 65, source_pitch=64)) == INVALID_VALUE


def test_boxes(start: Start) -> None:
    program = start()
    program.start_up()
    source, target = program.allocate(8192), program.allocate(8192)
    data = os.urandom(8192)
    program.write(source, data)
    width, height, depth = 7, 3, 4
    program.ok("cuMemcpy3D_v2", box(source, target, (width, height, depth), (32, 16), (5, 3)))
    expected = bytearray(8192)
    for z in range(depth):
        for y in range(height):
            to, at = z * 16 * 3 + y * 16, z * 32 * 5 + y * 32
            expected[to : to + width] = data[at : at + width]
    assert program.read(target, 8192) == bytes(expected)
    assert program.status("cuMemcpy3D_v2", box(source, target, (7, 3, 99), (32, 16), (5, 3))) == INVALID_VALUE


def test_random_copies_between_all_kinds(start: Start) -> None:
    """Device, pinned, registered, managed and mapped memory, against a model in Python."""
    program = start()
    program.start_up()
    size = 64 << 10
    mapped = Mapping(program, 2 * MIB)
    pageable = program.number("cuMemHostAlloc", out(8), 2 * size, 0)
    registered = program.place(bytes(size))
    program.ok("cuMemHostRegister_v2", registered, size, 0)
    places = [
        program.allocate(size),
        mapped.address + MIB,
        program.number("cuMemHostAlloc", out(8), size, 0),
        program.number("cuMemAllocManaged", out(8), size, 1),
        registered,
        pageable + size,
    ]
    chosen = random.Random(11)
    model = [bytearray(size) for _ in places]
    for index, place in enumerate(places):
        model[index][:] = chosen.randbytes(size)
        program.ok("cuMemcpyHtoD_v2", place, given(bytes(model[index])), size)
    for _ in range(200):
        source, target = chosen.randrange(len(places)), chosen.randrange(len(places))
        length = chosen.randrange(1, size)
        at, to = chosen.randrange(size - length), chosen.randrange(size - length)
        if source == target:
            continue
        name = chosen.choice(("cuMemcpy", "cuMemcpyAsync", "cuMemcpy_ptds", "cuMemcpyDtoD_v2"))
        program.ok(name, places[target] + to, places[source] + at, length, *([0] if "Async" in name else []))
        model[target][to : to + length] = model[source][at : at + length]
    program.ok("cuCtxSynchronize")
    for index, place in enumerate(places):
        assert program.read(place, size) == bytes(model[index])


STREAM_ORDER, NON_BLOCKING, LEGACY, PER_THREAD = 1, 1, 1, 2
RELAXED, CAPTURE_UNSUPPORTED = 2, 900
BATCH = [(0, 512, 3), (100, 600, 5)]
"""Where to and from in a memory, and how many bytes."""


def batch(
    program: Program, memory: int, stream: int, orders: list[tuple[int, int]], copies: list[tuple[int, int, int]]
) -> int:
    """The status of a batch whose copies have these orders of access, each from one of the copies on."""
    to, source = ([memory + each[end] if each[2] else 0 for each in copies] for end in (0, 1))
    columns = [given(struct.pack(f"<{len(copies)}Q", *each)) for each in (to, source, [each[2] for each in copies])]
    attributes = b"".join(struct.pack("<iiiiiI", order, 0, 0, 0, 0, 0) for order, _ in orders)
    starts = struct.pack(f"<{len(orders)}Q", *(first for _, first in orders))
    counted = [*columns, len(copies), given(attributes), given(starts), len(orders)]
    return program.status("cuMemcpyBatchAsync_v2", *counted, stream)


def test_a_batch_of_copies(start: Start) -> None:
    """What it takes, and what it says to the rest: no legacy stream, no capture, no copy of nothing."""
    program = start()
    program.start_up()
    memory, stream = program.allocate(1024), program.number("cuStreamCreate", out(8), NON_BLOCKING)
    program.write(memory + 512, bytes(range(256)) * 2)
    right = [(STREAM_ORDER, 0)]
    for lane in (stream, PER_THREAD):
        program.ok("cuMemsetD8Async", memory, 0, 512, lane)
        assert batch(program, memory, lane, right, BATCH) == SUCCESS
        program.ok("cuCtxSynchronize")
        assert program.read(memory, 3) + program.read(memory + 100, 6) == b"\0\1\2\x58\x59\x5a\x5b\x5c\0"
    assert [batch(program, memory, lane, right, BATCH) for lane in (0, LEGACY)] == [INVALID_VALUE] * 2
    assert batch(program, memory, stream, right, [*BATCH, (0, 0, 0)]) == INVALID_VALUE
    assert batch(program, memory, stream, [(STREAM_ORDER, 0), (3, 1)], BATCH) == SUCCESS
    wrong = [[(0, 0)], [(4, 0)], [(1, 1)], [(1, 0), (1, 0)], [(1, 0), (1, 2)], [(1, 0), (2, 1), (3, 2)], []]
    assert [batch(program, memory, stream, orders, BATCH) for orders in wrong] == [INVALID_VALUE] * len(wrong)
    program.ok("cuStreamBeginCapture_v2", stream, RELAXED)
    assert batch(program, memory, stream, right, BATCH) == CAPTURE_UNSUPPORTED
    program.ok("cuMemsetD8Async", memory, 0, 8, stream)
    graph = program.number("cuStreamEndCapture", stream, out(8))
    assert program.number("cuGraphGetNodes", graph, None, out(8)) == 1


def test_host_memory(start: Start) -> None:
    program = start()
    program.start_up()
    pinned = program.number("cuMemHostAlloc", out(8), 10000, 3)
    assert program.number("cuMemHostGetDevicePointer_v2", out(8), pinned, 0) == pinned
    assert program.number("cuMemHostGetFlags", out(4), pinned) == 3
    program.poke(pinned, b"\1\2")
    assert program.read(pinned, 3) == b"\1\2\0"
    # As an H200 says; 712 and 713 are about what was registered.
    assert program.status("cuMemHostRegister_v2", pinned, 4096, 0) == INVALID_VALUE
    assert program.status("cuMemHostUnregister", pinned) == INVALID_VALUE
    assert program.status("cuMemFree_v2", pinned) == INVALID_VALUE
    program.ok("cuMemFreeHost", pinned)
    assert program.status("cuMemFreeHost", pinned) == INVALID_VALUE
    assert program.free_memory() == 16 * GIB


def test_pointer_attributes_tell_the_kinds_apart(start: Start) -> None:
    program = start()
    context = program.start_up()
    mapped = Mapping(program, 4 * MIB)
    linear, pinned = program.allocate(100), program.number("cuMemHostAlloc", out(8), 100, 0)
    managed = program.number("cuMemAllocManaged", out(8), 100, 1)
    pooled = program.number("cuMemAllocAsync", out(8), 100, 0)

    def ask(number: int, address: int) -> int:
        return program.number("cuPointerGetAttribute", out(8), number, address)

    assert [ask(CONTEXT, p) for p in (linear, pinned, managed, mapped.address, pooled)] == [context] * 3 + [0, 0]
    assert [ask(MEMORY_TYPE, p) for p in (linear, pinned, managed, mapped.address)] == [DEVICE, HOST, DEVICE, DEVICE]
    assert [ask(IPC_CAPABLE, p) for p in (linear, mapped.address, pooled)] == [1, 0, 0]
    assert [ask(IS_MANAGED, p) for p in (linear, managed)] == [0, 1]
    assert ask(RANGE_START, mapped.address + 5) == mapped.address
    assert ask(RANGE_SIZE, linear + 5) == 100
    ids = [ask(BUFFER_ID, p) for p in (linear, pinned, managed, mapped.address, pooled)]
    assert len(set(ids)) == 5
    assert program.status("cuPointerGetAttribute", out(8), MEMORY_TYPE, 0x1234) == INVALID_VALUE
    assert program.status("cuPointerGetAttribute", out(8), 9999, linear) == INVALID_VALUE
    # An unknown address is no error for the call that asks for several at once.
    types = program.number("cuMemHostAlloc", out(8), 16, 0)
    program.ok(
        "cuPointerGetAttributes", 1, given(struct.pack("<i", MEMORY_TYPE)), given(struct.pack("<Q", types)), 0x1234
    )
    assert program.python(f"peek({types}, 4)") == "00000000"


def test_pools(start: Start) -> None:
    program = start(TORPOR_SIM_MEMORY="64M")
    program.start_up()
    stream = program.number("cuStreamCreate", out(8), 1)
    pool = program.number("cuDeviceGetDefaultMemPool", out(8), 0)
    address = program.number("cuMemAllocAsync", out(8), 32 * MIB, stream)
    used = program.ok("cuMemPoolGetAttribute", pool, 7, out(8))[0]
    assert int.from_bytes(used, "little") == 32 * MIB
    assert program.status("cuMemAllocAsync", out(8), 33 * MIB, stream) == OUT_OF_MEMORY
    program.ok("cuMemFreeAsync", address, stream)
    assert program.status("cuMemFreeAsync", address, stream) == INVALID_VALUE
    program.ok("cuStreamSynchronize", stream)
    assert program.free_memory() == 64 * MIB
    own = program.number("cuMemPoolCreate", out(8), given(struct.pack("<iiii", 1, 0, 1, 0) + bytes(72)))
    address = program.number("cuMemAllocFromPoolAsync", out(8), MIB, own, 0)
    program.write(address, b"x" * 100)
    program.ok("cuMemPoolDestroy", own)
    assert program.status("cuMemPoolDestroy", pool) == INVALID_VALUE
    program.ok("cuMemFree_v2", address)
    assert program.free_memory() == 64 * MIB
