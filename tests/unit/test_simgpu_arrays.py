"""CUDA arrays on the software GPU: shapes, descriptions, and copies in one, two and three dimensions."""

from __future__ import annotations

import struct

import pytest

from tests.native.simgpu.program import (
    INVALID_HANDLE,
    INVALID_VALUE,
    MIB,
    NOT_SUPPORTED,
    OUT_OF_MEMORY,
    SUCCESS,
    Program,
    Start,
    given,
    out,
    programs_fixture,
)

start = programs_fixture()

UINT8, HALF, FLOAT = 1, 16, 32
LAYERED, CUBEMAP, SPARSE = 1, 4, 64
HOST, DEVICE, ARRAY = 1, 2, 3


def described(
    width: int, height: int = 0, depth: int = 0, format_: int = UINT8, channels: int = 1, flags: int = 0
) -> bytes:
    """A CUDA_ARRAY3D_DESCRIPTOR."""
    return struct.pack("<QQQIIIi", width, height, depth, format_, channels, flags, 0)


def description(program: Program, array: int) -> bytes:
    """The array's CUDA_ARRAY3D_DESCRIPTOR, with its padding zeroed."""
    return program.ok("cuArray3DGetDescriptor_v2", out(40), array)[0][:36] + bytes(4)


def made(program: Program, *shape: int, **more: int) -> int:
    return program.number("cuArray3DCreate_v2", out(8), given(described(*shape, **more)))


def side(kind: int, where: int, x: int = 0, y: int = 0, pitch: int = 0) -> bytes:
    """One side of a CUDA_MEMCPY2D."""
    return struct.pack(
        "<QQIIQQQQ", x, y, kind, 0, *(where if kind == each else 0 for each in (HOST, DEVICE, ARRAY)), pitch
    )


def plane(source: bytes, target: bytes, width: int, height: int) -> dict[str, str]:
    return given(source + target + struct.pack("<QQ", width, height))


def box_side(kind: int, where: int, at: tuple[int, int, int] = (0, 0, 0), pitch: int = 0, height: int = 0) -> bytes:
    """One side of a CUDA_MEMCPY3D."""
    places = (where if kind == each else 0 for each in (HOST, DEVICE, ARRAY))
    return struct.pack("<QQQQIIQQQQQQ", *at, 0, kind, 0, *places, 0, pitch, height)


def box(source: bytes, target: bytes, width: int, height: int, depth: int) -> dict[str, str]:
    return given(source + target + struct.pack("<QQQ", width, height, depth))


def test_descriptions_are_read_back(start: Start) -> None:
    program = start()
    program.start_up()
    flat = program.number("cuArrayCreate_v2", out(8), given(struct.pack("<QQII", 30, 20, FLOAT, 2)))
    assert program.ok("cuArrayGetDescriptor_v2", out(24), flat) == [struct.pack("<QQII", 30, 20, FLOAT, 2)]
    assert description(program, flat) == described(30, 20, 0, FLOAT, 2)
    layers = made(program, 16, 16, 12, format_=HALF, channels=4, flags=CUBEMAP | LAYERED)
    assert description(program, layers) == described(16, 16, 12, HALF, 4, CUBEMAP | LAYERED)
    program.ok("cuArrayDestroy", flat)
    assert program.status("cuArrayGetDescriptor_v2", out(24), flat) == INVALID_HANDLE
    assert program.status("cuArrayDestroy", flat) == INVALID_HANDLE


@pytest.mark.parametrize(
    ("what", "status"),
    [
        (described(0), INVALID_VALUE),
        (described(8, channels=3), INVALID_VALUE),
        (described(200_000), INVALID_VALUE),
        (described(8, 70_000), INVALID_VALUE),
        (described(8, 0, 8), INVALID_VALUE),
        (described(8, 8, 20_000), INVALID_VALUE),
        (described(8, 9, 6, flags=CUBEMAP), INVALID_VALUE),
        (described(8, 8, 6, flags=CUBEMAP), SUCCESS),
        (described(8, 0, 5, flags=LAYERED), SUCCESS),
        (described(8, flags=1 << 20), INVALID_VALUE),
        (described(8, 8, flags=SPARSE), NOT_SUPPORTED),
        (described(8, 8, format_=0xB0), NOT_SUPPORTED),
        (described(16_000, 16_000, 16_000, FLOAT), OUT_OF_MEMORY),
    ],
)
def test_shapes(start: Start, what: bytes, status: int) -> None:
    program = start()
    program.start_up()
    assert program.status("cuArray3DCreate_v2", out(8), given(what)) == status


def test_lines(start: Start) -> None:
    program = start()
    program.start_up()
    array, other = made(program, 64), made(program, 32, format_=HALF)
    memory = program.allocate(64)
    program.ok("cuMemcpyHtoA_v2", array, 8, given(bytes(range(40))), 40)
    assert program.ok("cuMemcpyAtoH_v2", out(48), array, 0, 48) == [bytes(8) + bytes(range(40))]
    program.ok("cuMemcpyAtoA_v2", other, 2, array, 8, 40)
    program.ok("cuMemcpyAtoD_v2", memory, other, 2, 40)
    assert program.read(memory, 40) == bytes(range(40))
    program.ok("cuMemcpyDtoA_v2", array, 0, memory + 1, 3)
    stream = program.number("cuStreamCreate", out(8), 1)
    assert program.ok("cuMemcpyAtoHAsync_v2", out(4), array, 0, 4, stream) == [bytes((1, 2, 3, 0))]
    program.ok("cuMemcpyHtoAAsync_v2", array, 60, given(b"tail"), 4, stream)
    program.ok("cuStreamSynchronize", stream)
    assert program.ok("cuMemcpyAtoH_v2", out(4), array, 60, 4) == [b"tail"]
    assert program.status("cuMemcpyHtoA_v2", array, 60, given(b"beyond"), 6) == INVALID_VALUE
    assert program.status("cuMemcpyHtoA_v2", made(program, 8, 8), 0, given(b"flat"), 4) == INVALID_VALUE
    assert program.status("cuMemcpyHtoA_v2", memory, 0, given(b"none"), 4) == INVALID_HANDLE


def test_planes_with_pitch(start: Start) -> None:
    program = start()
    program.start_up()
    array = made(program, 10, 6)
    source = program.place(bytes(range(64)))  # 8 rows of 8
    program.ok("cuMemcpy2D_v2", plane(side(HOST, source, 1, 2, 8), side(ARRAY, array, 3, 1), 5, 4))
    whole = program.number("cuMemHostAlloc", out(8), 60, 0)
    program.ok("cuMemcpy2D_v2", plane(side(ARRAY, array), side(HOST, whole, pitch=10), 10, 6))
    wanted = bytearray(60)
    for row in range(4):
        wanted[(row + 1) * 10 + 3 : (row + 1) * 10 + 8] = bytes(range((row + 2) * 8 + 1, (row + 2) * 8 + 6))
    assert bytes.fromhex(program.python(f"peek({whole}, 60)")) == wanted
    for x, y, width, height in ((6, 0, 5, 1), (0, 3, 1, 4), (11, 0, 1, 1)):
        refused = plane(side(ARRAY, array, x, y), side(HOST, whole, pitch=16), width, height)
        assert program.status("cuMemcpy2D_v2", refused) == INVALID_VALUE
    assert program.status("cuMemcpy2D_v2", plane(side(ARRAY, 1 << 20), side(HOST, whole), 1, 1)) == INVALID_HANDLE


def test_boxes(start: Start) -> None:
    program = start()
    program.start_up()
    array, memory = made(program, 4, 3, 5), program.allocate(4 * 3 * 5)
    program.write(memory, bytes(range(60)))
    program.ok("cuMemcpy3D_v2", box(box_side(DEVICE, memory, pitch=4, height=3), box_side(ARRAY, array), 4, 3, 5))
    target = program.number("cuMemHostAlloc", out(8), 8, 0)
    part = box(box_side(ARRAY, array, (1, 1, 2)), box_side(HOST, target, pitch=2, height=2), 2, 2, 2)
    program.ok("cuMemcpy3DAsync_v2", part, 0)
    program.ok("cuCtxSynchronize")
    wanted = bytes(z * 12 + y * 4 + x for z in (2, 3) for y in (1, 2) for x in (1, 2))
    assert bytes.fromhex(program.python(f"peek({target}, 8)")) == wanted
    beyond = box(box_side(ARRAY, array, (0, 0, 4)), box_side(HOST, target, pitch=2, height=2), 2, 2, 2)
    assert program.status("cuMemcpy3D_v2", beyond) == INVALID_VALUE


def test_arrays_count_as_device_memory_and_end_with_their_context(start: Start) -> None:
    program = start()
    program.start_up()
    before = program.free_memory()
    array = made(program, 1024, 1024, format_=FLOAT)
    assert before - program.free_memory() == 4 * MIB
    program.ok("cuArrayDestroy", array)
    assert program.free_memory() == before
    array = made(program, 1024, 1024, format_=FLOAT)
    program.ok("cuDevicePrimaryCtxReset_v2", 0)
    program.start_up()
    assert program.free_memory() == before
    assert program.status("cuArrayDestroy", array) == INVALID_HANDLE


def test_an_array_survives_a_checkpoint(start: Start) -> None:
    job, keeper = start(), start()
    job.start_up()
    keeper.start_up()
    array = made(job, 16)
    job.ok("cuMemcpyHtoA_v2", array, 0, given(b"what the array is"[:16]), 16)
    for step in ("Lock", "Checkpoint", "Restore", "Unlock"):
        keeper.ok(f"cuCheckpointProcess{step}", job.pid, None)
    assert job.ok("cuMemcpyAtoH_v2", out(16), array, 0, 16) == [b"what the array i"]
