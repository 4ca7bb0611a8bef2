"""Sifting on the software GPU: what is new moves, once, and nothing else does."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.on_sim import run_on_sim

SETTING = """
import ctypes, os, random, sys, threading
from pathlib import Path
from blake3 import blake3
from cuda.bindings import driver as cu
from torpor.driver import Driver, copies
from torpor.errors import TorporError
from torpor.keeper import placement, sift, transfer
from torpor.keeper.memory import MappedRow
from torpor.keeper.placement import PlacedBlock
from torpor.keeper.pool import Pool
from torpor.keeper.sift import CannotHash, Hashers, Sieve, Sifter, unknown_to

MIB, CHUNK = 1 << 20, 256 << 10
driver = Driver()
driver.warm()

def pin(address, size):
    driver.bind_any()
    copies.pin(address, size)

def unpin(address):
    driver.bind_any()
    copies.unpin(address)

pool = Pool(Path(sys.argv[1]) / "pool", pin, unpin, 64 * MIB)
before = [driver.free_memory(device.ordinal) for device in driver.devices]

class Job:
    '''Blocks on all devices in turn, and what is in them.'''

    def __init__(self, sizes):
        on = [driver.devices[n % len(driver.devices)] for n in range(len(sizes))]
        placed = [(device.uuid, PlacedBlock(300 + n % 3, (n + 1) << 32, size, device.ordinal))
                  for n, (device, size) in enumerate(zip(on, sizes))]
        self.rows = placement.rows(placed)
        self.mapped = {row.uuid: MappedRow.created(driver, driver.by_uuid(row.uuid), [b.size for b in row.blocks])
                       for row in self.rows}
        self.blocks = {(block.pid, block.address): (row, base, block.size)
                       for row in self.rows for block, base in zip(row.blocks, row.bases)}
        self.data = {}
        self.keys = sorted(self.blocks, key=lambda key: key[1])  # in the order of the sizes

    def write(self, key, data, at=0):
        row, base, size = self.blocks[key]
        driver.bind(self.mapped[row.uuid].device.ordinal)
        assert cu.cuMemcpyHtoD(self.mapped[row.uuid].base + base + at, bytes(data), len(data))[0] == 0
        held = self.data.setdefault(key, bytearray(size))
        held[at : at + len(data)] = data

    def chunks(self):
        for key, data in self.data.items():
            for at in range(0, len(data), CHUNK):
                yield key, bytes(data[at : at + CHUNK])

    def digests(self):
        found = {}
        for key, chunk in self.chunks():
            found.setdefault(key, []).append(blake3(chunk).digest())
        return found

    def close(self):
        for row in self.mapped.values():
            row.close()

class Store:
    def __init__(self):
        self.chunks, self.received, self.lock = {}, [], threading.Lock()

    def deliver(self, found):
        assert sum(len(data) for _hash, data in found) <= sift.SEGMENT
        with self.lock:
            for digest, data in found:
                assert blake3(data).digest() == digest
                self.received.append(digest)
                self.chunks[digest] = bytes(data)

def once(job, store, hashers):
    '''One sifting into the store; the hashes that it got, and the sieve.'''
    store.received, counted = [], []
    sieve = Sieve(unknown_to(set(store.chunks)))
    sifted = Sifter(driver, pool, hashers, sieve, store.deliver).sift(job.rows, job.mapped, counted.append)
    assert sifted.digests == job.digests()
    assert sum(counted) == sifted.moved.bytes == sieve.chosen == sum(len(store.chunks[d]) for d in store.received)
    assert len(set(store.received)) == len(store.received)
    total = sieve.zero + sieve.already_known + sieve.repeated + sieve.chosen
    assert total == sum(size for _row, _base, size in job.blocks.values())
    assert {blake3(chunk).digest() for _key, chunk in job.chunks() if any(chunk)} <= set(store.chunks)
    return store.received, sieve

def finish(*closing):
    for one in closing:
        one.close()
    assert pool.figures().lent == 0
    pool.close()
    assert [driver.free_memory(device.ordinal) for device in driver.devices] == before
"""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Two devices that no other process shares, and memory for the pool."""
    folder = Path(tempfile.mkdtemp(prefix="tp-sift-", dir="/dev/shm"))
    yield {"TORPOR_SIM_DEVICES": "2", "TORPOR_SIM_DIR": str(tmp_path), "FOLDER": str(folder)}
    shutil.rmtree(folder)


def run(code: str, place: dict[str, str], **env: str) -> str:
    given = {**place, **env}
    return run_on_sim(SETTING + code, given.pop("FOLDER"), **given)


def test_a_second_time_only_what_changed_moves(place: dict[str, str]) -> None:
    run(
        """
job = Job([4 * MIB, 2 * MIB, 2 * MIB, 6 * MIB, 2 * MIB])
chance = random.Random(5)
keys = job.keys
for key in keys:
    job.write(key, chance.randbytes(job.blocks[key][2]))
job.write(keys[1], bytes(MIB), at=MIB)                  # four zero chunks
job.write(keys[4], job.data[keys[0]][: 2 * MIB])        # eight chunks that are on the other block, too
store, hashers = Store(), Hashers(driver, CHUNK)
received, sieve = once(job, store, hashers)
assert (sieve.zero, sieve.repeated, sieve.already_known) == (MIB, 2 * MIB, 0)
assert len(received) == (16 - 3) * MIB // CHUNK

assert once(job, store, hashers)[0] == []

job.write(keys[0], b"?", at=3 * CHUNK - 1)              # one byte each, in two chunks
job.write(keys[3], b"!", at=6 * MIB - 1)
job.write(keys[2], bytes(2 * MIB))
received, sieve = once(job, store, hashers)
assert len(received) == 2 and sieve.zero == 3 * MIB

job.write(keys[0], bytes(job.data[keys[3]][:MIB]))      # moved within the job: known
assert once(job, store, hashers)[0] == []
finish(hashers, job)
""",
        place,
    )


def test_stretches_and_segments_are_only_a_matter_of_size(place: dict[str, str]) -> None:
    run(
        """
# Three chunks to a segment, and stretches shorter than blocks: every boundary is met.
sift.SEGMENT, sift.STRETCH = 3 * CHUNK, 5 * CHUNK
job = Job([2 * MIB, 6 * MIB, 2 * MIB, 2 * MIB, 4 * MIB])
chance = random.Random(6)
store, hashers = Store(), Hashers(driver, CHUNK)
for key in job.blocks:
    job.write(key, chance.randbytes(job.blocks[key][2]))
assert len(once(job, store, hashers)[0]) == 16 * MIB // CHUNK
for round in range(4):
    changed = set()
    for _ in range(chance.randrange(1, 12)):
        key = chance.choice(list(job.blocks))
        at = chance.randrange(job.blocks[key][2])
        job.write(key, chance.randbytes(1), at)
        changed.add((key, at // CHUNK))
    received = once(job, store, hashers)[0]
    assert len(received) <= len(changed)
finish(hashers, job)
""",
        place,
    )


def test_hashing_goes_on_while_earlier_chunks_are_delivered(place: dict[str, str]) -> None:
    # The first delivery is held until a later stretch has been hashed; without overlap that never happens.
    run(
        """
sift.SEGMENT, sift.STRETCH = 4 * CHUNK, 8 * CHUNK
job = Job([8 * MIB])
job.write(next(iter(job.blocks)), random.Random(7).randbytes(8 * MIB))
later, store = threading.Event(), Store()

class Watched(Sieve):
    def choose(self, hashes):
        if self.chosen:
            later.set()
        return super().choose(hashes)

def deliver(found):
    assert later.wait(100)
    store.deliver(found)

hashers = Hashers(driver, CHUNK)
sifter = Sifter(driver, pool, hashers, Watched(unknown_to(set())), deliver)
assert sifter.sift(job.rows, job.mapped, lambda count: None).moved.bytes == 8 * MIB
assert len(store.received) == 8 * MIB // CHUNK
finish(hashers, job)
""",
        place,
        TORPOR_SIM_DEVICES="1",
    )


@pytest.mark.parametrize(
    "fault",
    ["deliver", "stop", "cuMemcpyDtoHAsync@3=fail:1", "cuLaunchKernel@4=fail:1", "cuMemAlloc@2=fail:2", "known"],
)
def test_a_failure_leaves_nothing_behind(fault: str, place: dict[str, str]) -> None:
    run(
        f"fault = {fault!r}"
        """
sift.SEGMENT, sift.STRETCH = 2 * CHUNK, 4 * CHUNK
transfer.THREADS_PER_GPU = transfer.MOST_HASHING = 2  # fewer than there are segments, on any host
job = Job([4 * MIB, 4 * MIB])
for key in job.blocks:
    job.write(key, random.Random(key[1]).randbytes(4 * MIB))
store, hashers = Store(), Hashers(driver, CHUNK)

class Forgetful:
    def __contains__(self, digest):
        if fault == "known":
            raise TorporError("the index cannot be read")
        return False

sifter = Sifter(driver, pool, hashers, Sieve(unknown_to(Forgetful())), store.deliver)

def deliver(found):
    store.deliver(found)
    if fault == "deliver":
        raise TorporError("the store is full")
    if fault == "stop":
        sifter.stop.set()

sifter.deliver = deliver
try:
    sifted = sifter.sift(job.rows, job.mapped, lambda count: None)
except (TorporError, CannotHash) as error:
    assert fault != "stop"
    assert isinstance(error, CannotHash) == fault.startswith(("cuLaunch", "cuMemAlloc", "cuMemcpy"))
else:
    assert fault == "stop" and 0 < sifted.moved.bytes < 8 * MIB
# What failed was an accident: the next time all is well, with the same hashers.
fault = ""
sifter.stop.clear()
sifter.sieve = Sieve(unknown_to(Forgetful()))
assert sifter.sift(job.rows, job.mapped, lambda count: None).digests == job.digests()
finish(hashers, job)
""",
        place,
        **({"TORPOR_SIM_FAULT": fault} if "=" in fault else {}),
    )


def test_threads_that_cannot_be_had_leave_none_at_work(place: dict[str, str]) -> None:
    run(
        """
import time
real, begun, busy = threading.Thread.start, [], []

def start(thread):
    if len(begun) == 1:
        raise RuntimeError("can't start new thread")
    begun.append(thread)
    real(thread)

def work(stream):
    busy.append(1)
    time.sleep(0.5)
    busy.pop()
    return 1

threading.Thread.start = start
try:
    transfer.run(driver, [(0, work)] * 4, lambda count: None, threading.Event())
except RuntimeError as error:
    assert "new thread" in str(error)
else:
    raise AssertionError("nobody was told")
assert begun and not busy and not begun[0].is_alive()
""",
        place,
    )
