"""Hashes made on a real GPU are the CPU's, for memory of gigabytes and of awkward sizes, at rest and under load."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from blake3 import blake3
from cuda.bindings import driver as cu

from torpor.driver import Driver
from torpor.driver.copies import Stream
from torpor.driver.hashing import ChunkHashes, DeviceHasher, Range
from torpor.keeper.memory import MappedRow

KIB, MIB = 1 << 10, 1 << 20


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    found = Driver()
    yield found
    found.close()


def checked(result: tuple[object, ...]) -> object:
    assert result[0] == cu.CUresult.CUDA_SUCCESS, result
    return result[1] if len(result) > 1 else None


@dataclass
class Memory:
    """`base` on a device has the bytes of `data`."""

    base: int
    data: bytearray

    def check(self, hashes: ChunkHashes) -> None:
        view = memoryview(self.data)

        def right(chunk: tuple[int, int, bytes]) -> bool:
            address, length, digest = chunk
            return blake3(view[address - self.base : address - self.base + length]).digest() == digest

        chunks = list(hashes.chunks())
        with ThreadPoolExecutor(8) as pool:
            wrong = [chunk[:2] for chunk, good in zip(chunks, pool.map(right, chunks), strict=True) if not good]
        assert not wrong, f"{len(wrong)} of {len(chunks)} hashes are wrong, first {wrong[:3]}"


@pytest.fixture
def memory(driver: Driver) -> Iterator[Memory]:
    """1 GiB of a device in eight blocks, mapped end to end. A piece of 16 MiB is zero."""
    driver.bind(0)
    with MappedRow.created(driver, driver.devices[0], [128 * MIB] * 8) as row:
        data = bytearray(os.urandom(64 * MIB) * 16)
        for at in range(0, len(data), 64 * MIB):  # no two pieces are the same
            data[at : at + 16] = os.urandom(16)
            data[at + 63 * MIB : at + 64 * MIB] = os.urandom(MIB)
        data[256 * MIB : 272 * MIB] = bytes(16 * MIB)
        checked(cu.cuMemcpyHtoD(row.base, data, row.size))
        yield Memory(row.base, data)


@pytest.mark.parametrize("chunk", [256 * KIB, MIB, 4 * MIB])
def test_a_gibibyte(driver: Driver, memory: Memory, chunk: int) -> None:
    driver.bind(0)
    with Stream() as stream, DeviceHasher(driver, driver.devices[0], chunk) as hasher:
        for _ in range(3):
            hashes = hasher.hash([(memory.base, len(memory.data))], stream)
            memory.check(hashes)
        first, last = 256 * MIB // chunk, 272 * MIB // chunk
        assert [number for number, zero in enumerate(hashes.zero()) if zero] == list(range(first, last))


@pytest.mark.parametrize("chunk", [KIB, 128 * KIB, 256 * KIB, MIB, 16 * MIB])
def test_awkward_lengths_and_places(driver: Driver, memory: Memory, chunk: int) -> None:
    driver.bind(0)
    chance = random.Random(chunk)
    ranges: list[Range] = []
    for length in (1, 63, 64, 65, 1023, 1024, 1025, 2048, 2049, 131071, 131072, 131073, 262145):
        ranges += [(memory.base + chance.randrange(MIB) * step, length) for step in (1, 16, 512)]
    for _ in range(200):
        at = chance.randrange(len(memory.data) - 20 * MIB)
        at -= at % chance.choice((1, 1, 4, 16, 1024))
        ranges.append((memory.base + at, chance.randrange(1, chance.choice((2000, 200_000, 2_000_000)))))
    with Stream() as stream, DeviceHasher(driver, driver.devices[0], chunk) as hasher:
        memory.check(hasher.hash(ranges, stream))


def test_while_copies_go_on(driver: Driver, memory: Memory) -> None:
    """Threads hash, each on a stream of its own, while others copy the same memory out."""
    driver.bind(0)
    stop = threading.Event()
    failures: list[BaseException] = []
    size = 64 * MIB

    def copy() -> None:
        driver.bind(0)
        host = int(str(checked(cu.cuMemHostAlloc(size, 0))))
        try:
            with Stream() as stream:
                while not stop.is_set():
                    stream.to_host(host, memory.base, size)
                    stream.wait()
        finally:
            checked(cu.cuMemFreeHost(host))

    def hash_all(hasher: DeviceHasher) -> None:
        driver.bind(0)
        try:
            with Stream() as stream:
                pending = [hasher.start([(memory.base + n * 16, 512 * MIB)], stream) for n in range(4)]
                for one in pending:
                    memory.check(one.result())
        except BaseException as error:  # noqa: BLE001 - judged by the test's thread
            failures.append(error)

    with DeviceHasher(driver, driver.devices[0], MIB) as hasher:
        copying = threading.Thread(target=copy)
        copying.start()
        threads = [threading.Thread(target=hash_all, args=(hasher,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        stop.set()
        copying.join()
    assert failures == []


def test_every_device(driver: Driver) -> None:
    for device in driver.devices:
        driver.bind(device.ordinal)
        before = driver.free_memory(device.ordinal)
        data = bytearray(os.urandom(4 * MIB))
        with MappedRow.created(driver, device, [4 * MIB]) as row, Stream() as stream:
            checked(cu.cuMemcpyHtoD(row.base, data, row.size))
            with DeviceHasher(driver, device, 256 * KIB) as hasher:
                Memory(row.base, data).check(hasher.hash([(row.base, row.size)], stream))
        # What the driver keeps for modules may stay; a gibibyte of it would not be that.
        assert before - driver.free_memory(device.ordinal) < 64 * MIB
