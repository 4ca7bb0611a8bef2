"""Stream-ordered memory in the arena: who may use what was freed, when it goes back, and what the program is told."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

import pytest

from tests.native.arena.harness import libraries
from tests.native.simgpu.program import (
    INVALID_HANDLE,
    INVALID_VALUE,
    MIB,
    NOT_READY,
    SUCCESS,
    Program,
    Start,
    given,
    out,
    programs_fixture,
)

start = programs_fixture()

THRESHOLD, RESERVED, RESERVED_HIGH, USED, USED_HIGH = 4, 5, 6, 7, 8
CONTEXT, LEGACY_IPC, RANGE_START, RANGE_SIZE, POOL = 1, 10, 11, 12, 17
EVERYTHING = (1 << 64) - 1


def begun(start: Start, folder: Path, **env: str) -> Program:
    interposer, driver = libraries()
    (folder / "ctl").mkdir(exist_ok=True)
    job = {"LD_PRELOAD": str(interposer), "TORPOR_REAL_LIBCUDA": str(driver), "TORPOR_JOB_DIR": str(folder)}
    program = start(**job, **env)
    program.start_up()
    return program


@pytest.fixture
def torpor(start: Start, tmp_path: Path) -> Program:
    return begun(start, tmp_path)


@pytest.fixture(params=["driver", "torpor"])
def either(request: pytest.FixtureRequest, start: Start, tmp_path: Path) -> Program:
    """With the driver's pools, or with Torpor's in front of them."""
    if request.param == "torpor":
        return begun(start, tmp_path)
    program = start()
    program.start_up()
    return program


def blocked_stream(program: Program) -> tuple[int, int]:
    """A stream that waits, and the address where a 1 lets it go on."""
    flag = program.number("cuMemHostAlloc", out(8), 4096, 0)
    stream = program.number("cuStreamCreate", out(8), 1)
    program.ok("cuStreamWaitValue32_v2", stream, flag, 1, 0)
    return stream, flag


def let_go(program: Program, flag: int) -> None:
    program.poke(flag, struct.pack("<I", 1))


def allocate(program: Program, size: int, stream: int) -> int:
    return program.number("cuMemAllocAsync", out(8), size, stream)


def default_pool(program: Program) -> int:
    return program.number("cuDeviceGetDefaultMemPool", out(8), 0)


def own_pool(program: Program) -> int:
    return program.number("cuMemPoolCreate", out(8), given(struct.pack("<4i", 1, 0, 1, 0) + bytes(72)))


def amount(program: Program, pool: int, which: int) -> int:
    return program.number("cuMemPoolGetAttribute", pool, which, out(8))


def keep_everything(program: Program, pool: int) -> None:
    program.ok("cuMemPoolSetAttribute", pool, THRESHOLD, given(struct.pack("<Q", EVERYTHING)))


def attribute(program: Program, which: int, address: int, size: int = 8) -> int:
    return int.from_bytes(program.ok("cuPointerGetAttribute", out(size), which, address)[0], "little")


def test_freed_memory_is_for_its_stream_first(torpor: Program) -> None:
    keep_everything(torpor, default_pool(torpor))
    stream, flag = blocked_stream(torpor)
    other = torpor.number("cuStreamCreate", out(8), 1)
    memory = allocate(torpor, 40 * MIB, stream)
    torpor.ok("cuMemFreeAsync", memory, stream)
    theirs = allocate(torpor, 40 * MIB, other)
    assert theirs != memory
    assert allocate(torpor, 40 * MIB, stream) == memory
    torpor.ok("cuMemFreeAsync", memory, stream)
    let_go(torpor, flag)
    torpor.ok("cuStreamSynchronize", stream)
    assert allocate(torpor, 40 * MIB, stream) == memory
    torpor.ok("cuMemFreeAsync", memory, stream)
    torpor.ok("cuMemFreeAsync", theirs, other)


def test_what_a_stream_has_passed_is_for_all(torpor: Program) -> None:
    pool = default_pool(torpor)
    keep_everything(torpor, pool)
    stream, flag = blocked_stream(torpor)
    other = torpor.number("cuStreamCreate", out(8), 1)
    memory = allocate(torpor, 64 * MIB, stream)
    torpor.ok("cuMemFreeAsync", memory, stream)  # so much that it gets a fence
    waiting = allocate(torpor, 64 * MIB, other)
    assert waiting != memory
    let_go(torpor, flag)
    torpor.ok("cuStreamSynchronize", stream)
    assert allocate(torpor, 64 * MIB, other) == memory
    assert amount(torpor, pool, RESERVED) == 128 * MIB


def test_a_stream_that_has_ended_frees_when_it_gets_there(torpor: Program) -> None:
    keep_everything(torpor, default_pool(torpor))
    stream, flag = blocked_stream(torpor)
    other = torpor.number("cuStreamCreate", out(8), 1)
    memory = allocate(torpor, 33 * MIB, stream)
    torpor.ok("cuMemFreeAsync", memory, stream)
    torpor.ok("cuStreamDestroy_v2", stream)
    again = torpor.number("cuStreamCreate", out(8), 1)  # may have the same handle
    assert memory not in {allocate(torpor, 33 * MIB, each) for each in (other, again)}
    let_go(torpor, flag)
    torpor.ok("cuCtxSynchronize")
    assert allocate(torpor, 33 * MIB, other) == memory


def test_memory_goes_back_at_the_next_wait(either: Program) -> None:
    pool = default_pool(either)
    before = either.free_memory()
    stream = either.number("cuStreamCreate", out(8), 1)
    memory = allocate(either, 48 * MIB, stream)
    assert either.free_memory() <= before - 48 * MIB
    assert amount(either, pool, RESERVED) >= amount(either, pool, USED) == 48 * MIB
    either.ok("cuMemFreeAsync", memory, stream)
    either.ok("cuStreamSynchronize", stream)
    assert either.free_memory() == before
    assert amount(either, pool, RESERVED) == amount(either, pool, USED) == 0
    assert amount(either, pool, USED_HIGH) == 48 * MIB
    either.ok("cuMemPoolSetAttribute", pool, USED_HIGH, given(bytes(8)))
    assert amount(either, pool, USED_HIGH) == 0


def test_a_pool_keeps_what_its_threshold_says(torpor: Program) -> None:
    pool = own_pool(torpor)
    keep_everything(torpor, pool)
    before = torpor.free_memory()
    memory = torpor.number("cuMemAllocFromPoolAsync", out(8), 48 * MIB, pool, 0)
    torpor.ok("cuMemFreeAsync", memory, 0)
    torpor.ok("cuCtxSynchronize")
    assert amount(torpor, pool, RESERVED) == 48 * MIB
    torpor.ok("cuMemPoolTrimTo", pool, 0)
    assert amount(torpor, pool, RESERVED) == 0
    memory = torpor.number("cuMemAllocFromPoolAsync", out(8), 48 * MIB, pool, 0)
    torpor.ok("cuMemPoolDestroy", pool)
    torpor.write(memory + 47 * MIB, b"lives on")
    assert torpor.read(memory + 47 * MIB, 8) == b"lives on"
    torpor.ok("cuMemFreeAsync", memory, 0)
    torpor.ok("cuCtxSynchronize")
    assert torpor.free_memory() == before


def test_kept_memory_gives_way(start: Start, tmp_path: Path) -> None:
    torpor = begun(start, tmp_path, TORPOR_SIM_MEMORY="256M")
    keep_everything(torpor, default_pool(torpor))
    torpor.ok("cuMemFreeAsync", allocate(torpor, 128 * MIB, 0), 0)
    torpor.ok("cuCtxSynchronize")
    address = torpor.allocate(160 * MIB)
    torpor.ok("cuMemFree_v2", address)


def test_memory_gives_way_that_other_streams_have_freed(start: Start, tmp_path: Path) -> None:
    """Also what was freed in a stream that ended while it was captured, where no event can tell how far it is."""
    torpor = begun(start, tmp_path, TORPOR_SIM_MEMORY="256M")
    for _time in range(5):
        stream = torpor.number("cuStreamCreate", out(8), 1)
        torpor.ok("cuMemFreeAsync", allocate(torpor, 40 * MIB, stream), stream)
        torpor.ok("cuStreamBeginCapture_v2", stream, 2)
        torpor.ok("cuStreamDestroy_v2", stream)
    torpor.ok("cuCtxSynchronize")
    torpor.allocate(160 * MIB)


def test_a_stream_that_is_none_frees_nothing(either: Program) -> None:
    memory = allocate(either, MIB, 0)
    stream = either.number("cuStreamCreate", out(8), 1)
    either.ok("cuStreamDestroy_v2", stream)
    assert either.status("cuMemFreeAsync", memory, stream) == INVALID_HANDLE
    either.ok("cuMemFreeAsync", memory, 0)


def test_what_the_program_is_told(either: Program) -> None:
    pool = own_pool(either)
    memory = either.number("cuMemAllocFromPoolAsync", out(8), 1000, pool, 0)
    inside = memory + 500
    assert attribute(either, POOL, inside) == pool
    assert attribute(either, CONTEXT, inside) == 0
    assert attribute(either, LEGACY_IPC, inside, 1) == 0
    assert attribute(either, RANGE_START, inside) == memory
    assert attribute(either, RANGE_SIZE, inside) == 1000
    assert either.status("cuIpcGetMemHandle", out(64), memory) == INVALID_VALUE
    plain = either.allocate(1000)
    assert attribute(either, POOL, plain) == 0
    for address in (inside, 64):
        assert either.status("cuMemFreeAsync", address, 0) == INVALID_VALUE
    assert either.status("cuMemFreeAsync", plain, 0) == SUCCESS  # the driver takes what cuMemAlloc gave
    assert either.status("cuMemFree_v2", memory) == SUCCESS
    either.ok("cuCtxSynchronize")
    for address in (plain, memory):
        assert either.status("cuMemFreeAsync", address, 0) == INVALID_VALUE
    assert either.status("cuMemAllocAsync", out(8), 0, 0) == INVALID_VALUE


def test_memory_outlives_the_context_that_asked_for_it(torpor: Program) -> None:
    context = torpor.number("cuCtxCreate_v2", out(8), 0, 0)
    stream = torpor.number("cuStreamCreate", out(8), 1)
    memory, freed = (allocate(torpor, MIB, stream) for _time in range(2))
    torpor.write(memory, b"still here")
    torpor.ok("cuMemFreeAsync", freed, stream)
    torpor.ok("cuCtxDestroy_v2", context)
    assert torpor.read(memory, 10) == b"still here"
    assert allocate(torpor, MIB, 0) == freed
    torpor.ok("cuMemFreeAsync", memory, 0)


class Walk:
    """Allocations in three streams, each filled in its stream; before one is freed its bytes are looked at there."""

    def __init__(self, program: Program, seed: int) -> None:
        self.program, self.random = program, random.Random(seed)
        self.streams = [program.number("cuStreamCreate", out(8), 1) for _ in range(3)]
        self.pools = [default_pool(program), own_pool(program)]
        if seed % 2:
            keep_everything(program, self.pools[1])
        self.blocked: dict[int, int] = {}
        self.live: list[tuple[int, int, int, int]] = []  # address, size, stream, value
        self.seen: list[tuple[int, int, int]] = []  # where a copy lands, size, value

    def step(self, number: int) -> None:
        do: Any = self.random.choices(
            (self.allocate, self.free, self.block, self.wait), weights=(5, 4 if self.live else 0, 1, 1)
        )[0]
        do(number)

    def allocate(self, number: int) -> None:
        at, value = self.random.randrange(3), number % 251 + 1
        size = self.random.choice((700, 9000, 300_000, 5 * MIB, 40 * MIB))
        pool = self.random.choice(self.pools)
        address = self.program.number("cuMemAllocFromPoolAsync", out(8), size, pool, self.streams[at])
        self.program.ok("cuMemsetD8Async", address, value, size, self.streams[at])
        self.live.append((address, size, at, value))

    def free(self, number: int) -> None:
        address, size, at, value = self.live.pop(self.random.randrange(len(self.live)))
        del number
        for place in (address, address + size - 64):
            landing = self.program.number("cuMemHostAlloc", out(8), 64, 0)
            self.program.ok("cuMemcpyDtoHAsync_v2", landing, place, 64, self.streams[at])
            self.seen.append((landing, 64, value))
        self.program.ok("cuMemFreeAsync", address, self.streams[at])

    def block(self, number: int) -> None:
        """One of the streams stands still for a while."""
        del number
        at = self.random.randrange(3)
        if at not in self.blocked:
            self.blocked[at] = self.program.number("cuMemHostAlloc", out(8), 4096, 0)
            self.program.ok("cuStreamWaitValue32_v2", self.streams[at], self.blocked[at], 1, 0)

    def wait(self, number: int) -> None:
        del number
        at = self.random.randrange(3)
        if at in self.blocked:
            let_go(self.program, self.blocked.pop(at))
        self.program.ok("cuStreamSynchronize", self.streams[at])

    def finish(self) -> None:
        for flag in self.blocked.values():
            let_go(self.program, flag)
        while self.live:
            self.free(0)
        self.program.ok("cuCtxSynchronize")
        for landing, size, value in self.seen:
            assert self.program.python(f"peek({landing}, {size})") == bytes([value] * size).hex()
        assert amount(self.program, self.pools[0], RESERVED) == 0
        assert {amount(self.program, pool, USED) for pool in self.pools} == {0}


@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(3, 40))])
def test_nobody_gets_memory_that_is_in_use(torpor: Program, seed: int) -> None:
    walk = Walk(torpor, seed)
    for number in range(250):
        walk.step(number)
    walk.finish()


def test_a_stream_may_stand_still(torpor: Program) -> None:
    """The test above would see a reuse that comes too early: here one is made."""
    keep_everything(torpor, default_pool(torpor))
    stream, flag = blocked_stream(torpor)
    memory = allocate(torpor, MIB, stream)
    torpor.ok("cuMemsetD8Async", memory, 5, MIB, stream)
    landing = torpor.number("cuMemHostAlloc", out(8), 64, 0)
    torpor.ok("cuMemcpyDtoHAsync_v2", landing, memory, 64, stream)
    torpor.ok("cuMemFreeAsync", memory, stream)
    assert torpor.status("cuStreamQuery", stream) == NOT_READY
    torpor.ok("cuMemsetD8_v2", memory, 6, MIB)  # as whoever got it too early would
    let_go(torpor, flag)
    torpor.ok("cuStreamSynchronize", stream)
    assert torpor.python(f"peek({landing}, 64)") == "05" * 64
