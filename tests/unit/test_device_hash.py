"""Hashes of device memory, made on the software GPU, are those of the CPU's library."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.on_sim import run_on_sim


@pytest.fixture
def alone(tmp_path: Path) -> dict[str, str]:
    """Devices that no other process shares, so that their free memory is this test's matter only."""
    return {"TORPOR_SIM_DIR": str(tmp_path)}


MEMORY = """
import random, threading
from blake3 import blake3
from cuda.bindings import driver as cu
from torpor.driver import Driver
from torpor.driver.copies import Stream
from torpor.driver.hashing import ChunkHashes, DeviceHasher
from torpor.errors import TorporError

KIB, MIB = 1 << 10, 1 << 20

class Memory:
    '''Random bytes on a device, and the same here.'''

    def __init__(self, driver, ordinal, size):
        driver.bind(ordinal)
        self.data = random.Random(ordinal).randbytes(size)
        self.base = int(cu.cuMemAlloc(size)[1])
        assert cu.cuMemcpyHtoD(self.base, self.data, size)[0] == 0

    def expected(self, ranges, chunk):
        for address, length in ranges:
            first = address - self.base
            for at in range(first, first + length, chunk):
                yield blake3(self.data[at : min(at + chunk, first + length)]).digest()

    def check(self, hashes):
        assert hashes.hashes == list(self.expected(hashes.ranges, hashes.chunk))

driver = Driver()
"""

AWKWARD = """
from hypothesis import given, settings, strategies as st
from torpor.driver.hashing import LARGEST_CHUNK
driver.warm()
driver.bind(0)
memory = Memory(driver, 0, 300 * KIB)
lengths = st.one_of(
    st.integers(1, 200), st.integers(1, 140 * KIB),
    st.builds(lambda leaves, more: max(1, leaves * 1024 + more), st.integers(0, 140), st.integers(-65, 65)))
places = st.tuples(st.integers(0, 100 * KIB), lengths)
aligned = st.tuples(st.integers(0, 100).map(lambda n: n * KIB), lengths)
hashers = {chunk: DeviceHasher(driver, driver.devices[0], chunk)
           for chunk in (KIB, 4 * KIB, 64 * KIB, 128 * KIB, 256 * KIB, LARGEST_CHUNK)}
with Stream() as stream:
    @settings(max_examples=60, deadline=None, database=None, derandomize=True)
    @given(st.lists(st.one_of(places, aligned), min_size=0, max_size=4), st.sampled_from(sorted(hashers)))
    def check(ranges, chunk):
        if chunk == KIB:
            ranges = [(at, min(length, 20 * KIB)) for at, length in ranges]
        memory.check(hashers[chunk].hash([(memory.base + at, length) for at, length in ranges], stream))
    check()
"""


@pytest.mark.parametrize("machine", [("9.0", "13000"), ("8.0", "12080"), ("7.5", "12080")], ids=lambda m: m[0])
def test_any_length_at_any_place(machine: tuple[str, str]) -> None:
    # The driver version is that of the oldest driver we run on: it must take the text, too.
    run_on_sim(MEMORY + AWKWARD, TORPOR_SIM_ARCH=machine[0], TORPOR_SIM_DRIVER_VERSION=machine[1])


def test_chunks_of_every_size_that_images_may_have() -> None:
    run_on_sim(
        MEMORY
        + """
driver.bind(0)
memory = Memory(driver, 0, 4 * MIB + 300 * KIB + 77)
with Stream() as stream:
    for chunk in (256 * KIB, 512 * KIB, MIB, 2 * MIB, 4 * MIB):
        with DeviceHasher(driver, driver.devices[0], chunk) as hasher:
            ranges = [(memory.base, len(memory.data)), (memory.base + 16, chunk), (memory.base + MIB, 129 * KIB)]
            hashes = hasher.hash(ranges, stream)
            memory.check(hashes)
            assert hashes.firsts == (0, len(memory.data) // chunk + 1, len(memory.data) // chunk + 2)
            assert [n for r in range(3) for n in hashes.of_range(r)] == hashes.hashes
"""
    )


def test_zero_chunks_are_known() -> None:
    run_on_sim(
        MEMORY
        + """
driver.bind(0)
memory = Memory(driver, 0, 64 * KIB)
cu.cuMemsetD8(memory.base + 16 * KIB, 0, 32 * KIB)
cu.cuMemsetD8(memory.base + 47 * KIB - 1, 1, 1)
with Stream() as stream, DeviceHasher(driver, driver.devices[0], 16 * KIB) as hasher:
    hashes = hasher.hash([(memory.base, 64 * KIB), (memory.base + 17 * KIB, 1000), (memory.base, 1)], stream)
assert hashes.zero() == [False, True, False, False, True, False], hashes.zero()
assert [length for _address, length, _hash in hashes.chunks()] == [16 * KIB] * 4 + [1000, 1]
"""
    )


def test_blocks_mapped_end_to_end_are_one_range(alone: dict[str, str]) -> None:
    run_on_sim(
        MEMORY
        + """
from torpor.keeper.memory import MappedRow
driver.bind(0)
before = driver.free_memory(0)
with MappedRow.created(driver, driver.devices[0], [2 * MIB] * 3) as row, Stream() as stream:
    memory = Memory(driver, 0, row.size)
    assert cu.cuMemcpyDtoD(row.base, memory.base, row.size)[0] == 0
    cu.cuMemFree(memory.base)
    memory.base = row.base
    with DeviceHasher(driver, driver.devices[0], 4 * MIB) as hasher:
        memory.check(hasher.hash([(row.base, row.size)], stream))
assert driver.free_memory(0) == before
""",
        **alone,
    )


def test_it_runs_beside_copies_and_other_devices() -> None:
    run_on_sim(
        MEMORY
        + """
driver.warm()
memories = [Memory(driver, n, 256 * KIB) for n in range(2)]
driver.bind(0)
held = int(cu.cuMemHostAlloc(64, 0)[1])
pinned = int(cu.cuMemHostAlloc(256 * KIB, 0)[1])
import ctypes
ctypes.memset(held, 0, 64)
hashers = [DeviceHasher(driver, device, 64 * KIB) for device in driver.devices]
driver.bind(0)
with Stream() as hashing, Stream() as copying:
    # The stream is busy until we say so: nothing but `result` may wait for it.
    assert cu.cuStreamWaitValue32(hashing.handle, held, 1, 0)[0] == 0
    pending = [hashers[0].start([(memories[0].base, 256 * KIB - n)], hashing) for n in range(3)]
    assert not any(one.done() for one in pending)
    copying.to_host(pinned, memories[0].base, 256 * KIB)
    copying.wait()
    assert ctypes.string_at(pinned, 256 * KIB) == memories[0].data
    found = []

    def on_the_other():
        driver.bind(1)
        with Stream() as stream:
            found.append(hashers[1].hash([(memories[1].base, 256 * KIB)], stream))

    other = threading.Thread(target=on_the_other)
    other.start()
    other.join()
    memories[1].check(found[0])
    assert not any(one.done() for one in pending)
    ctypes.memset(held, 1, 1)
    for n, one in enumerate(pending):
        assert one.result().ranges == ((memories[0].base, 256 * KIB - n),)
        assert one.done() and one.result() is one.result()
        memories[0].check(one.result())
    hashers[0].close()
driver.bind(1)
hashers[1].close()
""",
        TORPOR_SIM_DEVICES="2",
    )


def test_threads_share_a_hasher() -> None:
    run_on_sim(
        MEMORY
        + """
driver.bind(0)
memory = Memory(driver, 0, 64 * KIB)
wrong = []

def work(seed):
    driver.bind(0)
    chance = random.Random(seed)
    with Stream() as stream:
        for _ in range(6):
            ranges = [(memory.base + chance.randrange(30 * KIB), chance.randrange(1, 30 * KIB)) for _ in range(3)]
            hashes = hasher.hash(ranges, stream)
            if hashes.hashes != list(memory.expected(ranges, 4 * KIB)):
                wrong.append(ranges)

with DeviceHasher(driver, driver.devices[0], 4 * KIB) as hasher:
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
assert not wrong, wrong
"""
    )


def test_nothing_is_left_after_use_or_failure(alone: dict[str, str]) -> None:
    run_on_sim(
        MEMORY
        + """
driver.bind(0)
memory = Memory(driver, 0, 256 * KIB)
before = driver.free_memory(0)
failed = 0
for round in range(4):
    with Stream() as stream, DeviceHasher(driver, driver.devices[0], 256 * KIB) as hasher:
        try:
            # More and more of them, so that buffers are exchanged for larger ones; one is never asked for.
            for count in (1, 2000):
                memory.check(hasher.hash([(memory.base, 1)] * count + [(memory.base, 256 * KIB)], stream))
            hasher.start([(memory.base, 256 * KIB)], stream)
        except TorporError:
            failed += 1
    assert driver.free_memory(0) == before, round
assert failed == 3, failed
""",
        # The second buffer; a launch of the second kernel; a copy of the result.
        TORPOR_SIM_FAULT="cuMemAlloc@3=fail:2;cuLaunchKernel@4=fail:1;cuMemcpyDtoHAsync@4=fail:1",
        **alone,
    )


def test_what_cannot_be_is_refused(alone: dict[str, str]) -> None:
    run_on_sim(
        MEMORY
        + """
from torpor.errors import MissingPart, UsageError
driver.bind(0)
old, new = driver.devices
before = driver.free_memory(1)
for chunk in (0, 512, 3 * KIB, 32 * MIB, -KIB):
    try:
        DeviceHasher(driver, new, chunk)
    except UsageError as error:
        assert str(chunk) in error.message
    else:
        raise SystemExit(chunk)
try:
    DeviceHasher(driver, old)
except MissingPart as error:
    assert "7.0" in error.message and "7.5" in error.hint
else:
    raise SystemExit("too old a device")
driver.bind(1)
with Stream() as stream, DeviceHasher(driver, new) as hasher:
    try:
        hasher.start([(1 << 20, 1), (1 << 20, 0)], stream)
    except UsageError as error:
        assert "one byte" in error.message
    else:
        raise SystemExit("nothing to hash")
    assert hasher.hash([], stream).hashes == []
assert driver.free_memory(1) == before
""",
        TORPOR_SIM_DEVICES="2",
        TORPOR_SIM_ARCH="7.0,9.0",
        **alone,
    )


def test_memory_that_is_not_there_is_an_error() -> None:
    run_on_sim(
        MEMORY
        + """
driver.bind(0)
with Stream() as stream:
    hasher = DeviceHasher(driver, driver.devices[0])
    try:
        hasher.start([(1 << 44, 4096)], stream).result()  # the second launch may learn of it from the first
    except TorporError as error:
        assert error.details["result"] == "CUDA_ERROR_ILLEGAL_ADDRESS", error.details
    else:
        raise SystemExit("it was hashed")
    import os
    os._exit(0)  # the context is lost, and with it all that could be closed
"""
    )


@pytest.mark.parametrize("call", ["cuModuleLoadData", "cuLaunchKernel", "cuEventSynchronize", "cuMemHostAlloc"])
def test_a_long_call_leaves_the_interpreter_to_others(call: str, tmp_path: Path) -> None:
    # The call hangs until the file is there, and it is this process's other thread that makes it.
    gate = tmp_path / "gate"
    run_on_sim(
        MEMORY
        + """
import sys
from pathlib import Path
memory = Memory(driver, 0, 4 * KIB)
done = threading.Event()

def work():
    driver.bind(0)
    with Stream() as stream, DeviceHasher(driver, driver.devices[0]) as hasher:
        memory.check(hasher.hash([(memory.base, 4 * KIB)], stream))
    done.set()

threading.Thread(target=work, daemon=True).start()
assert not done.wait(0.05)
Path(sys.argv[1]).touch()
assert done.wait(100)
""",
        str(gate),
        TORPOR_SIM_FAULT=f"{call}@1=hang:{gate}",
    )
