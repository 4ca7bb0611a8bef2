"""Sifting on a real GPU: what is new comes into pinned memory, byte for byte, and nothing else does."""

from __future__ import annotations

import os
import random
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from blake3 import blake3
from cuda.bindings import driver as cu

from torpor.driver import Driver, copies
from torpor.keeper import placement
from torpor.keeper.memory import MappedRow
from torpor.keeper.placement import PlacedBlock
from torpor.keeper.pool import Pool
from torpor.keeper.sift import Found, Hashers, Sieve, Sifted, Sifter, unknown_to

MIB = 1 << 20
CHUNK = MIB
SIZES = [2 * MIB, 510 * MIB, 1536 * MIB, 64 * MIB]


@pytest.fixture
def driver() -> Iterator[Driver]:
    found = Driver()
    found.bind(0)
    yield found
    found.close()


@pytest.fixture
def pool(driver: Driver) -> Iterator[Pool]:
    def pin(address: int, size: int) -> None:
        driver.bind(0)
        copies.pin(address, size)

    with tempfile.TemporaryDirectory(prefix="tp-sift-", dir="/dev/shm") as folder:
        made = Pool(Path(folder) / "pool", pin, copies.unpin, 512 * MIB)
        yield made
        driver.bind(0)
        made.close()


class Receiver:
    """Checks what arrives by its hash, and keeps the hashes."""

    def __init__(self) -> None:
        self.received: list[bytes] = []
        self.bytes = 0
        self.wrong = 0
        self._lock = threading.Lock()

    def __call__(self, found: Found) -> None:
        good = [blake3(data).digest() == digest for digest, data in found]
        with self._lock:
            self.wrong += good.count(False)
            self.received += [digest for digest, _data in found]
            self.bytes += sum(len(data) for _digest, data in found)


def test_a_second_time_only_what_changed_moves(driver: Driver, pool: Pool) -> None:
    device = driver.devices[0]
    blocks = [PlacedBlock(300, (number + 1) << 40, size, 0) for number, size in enumerate(SIZES)]
    rows = placement.rows((device.uuid, block) for block in blocks)
    total = sum(SIZES)
    hashers = Hashers(driver, CHUNK)
    with MappedRow.created(driver, device, SIZES) as row:

        def sift(known: set[bytes]) -> tuple[Receiver, Sieve, Sifted]:
            receiver, sieve, moved = Receiver(), Sieve(unknown_to(known)), []
            sifted = Sifter(driver, pool, hashers, sieve, receiver).sift(rows, {device.uuid: row}, moved.append)
            assert receiver.wrong == 0
            assert receiver.bytes == sifted.moved.bytes == sum(moved) == sieve.chosen
            assert len(set(receiver.received)) == len(receiver.received)
            return receiver, sieve, sifted

        def write(at: int, data: bytes) -> None:
            driver.bind(0)
            assert cu.cuMemcpyHtoD(row.base + at, data, len(data))[0] == cu.CUresult.CUDA_SUCCESS

        for at in range(0, total, 64 * MIB):
            write(at, os.urandom(min(64 * MIB, total - at)))
        write(100 * MIB, bytes(28 * MIB))  # zero chunks
        write(600 * MIB, b"the same" * (MIB // 8) * 16)  # sixteen equal chunks
        first, sieve, sifted = sift(set())
        assert (sieve.zero, sieve.repeated) == (28 * MIB, 15 * MIB)
        assert len(first.received) == total // CHUNK - 28 - 15
        known = set(first.received)
        assert {digest for some in sifted.digests.values() for digest in some} - known == {
            blake3(bytes(CHUNK)).digest()
        }

        assert sift(known)[0].received == []

        changed = random.sample(range(total // CHUNK), 40)
        for number in changed:
            write(number * CHUNK + random.randrange(CHUNK - 16), os.urandom(16))
        again, _sieve, sifted = sift(known)
        assert len(again.received) == len(changed)
        bases = {(block.pid, block.address): base for block, base in zip(rows[0].blocks, rows[0].bases, strict=True)}
        where = {
            bases[key] // CHUNK + at: digest for key, some in sifted.digests.items() for at, digest in enumerate(some)
        }
        assert {where[number] for number in changed} == set(again.received)
    driver.bind(0)
    hashers.close()
