"""Stream-ordered memory that several threads have to do with, and what frees it beside its own streams."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.native.arena.harness import INVALID_VALUE, MIB, SUCCESS, Program, environment, libraries, out
from tests.native.simgpu.program import Program as Worker

GLOBAL, THREAD_LOCAL, RELAXED = 0, 1, 2
PER_THREAD = 2
THRESHOLD, RESERVED, USED = 4, 5, 7
UNSUPPORTED, INVALIDATED, IMPLICIT = 900, 901, 906
ARENA = range(0x600000000000, 0x610000000000)


def sim_environment(folder: Path, **more: str) -> dict[str, str]:
    """The software GPU without Torpor."""
    _interposer, driver = libraries()
    return {**os.environ, "LD_LIBRARY_PATH": str(driver.parent), "TORPOR_SIM_DIR": str(folder), **more}


class Job(Program):
    """A program whose context is `context`."""

    context = 0

    def elsewhere(self, name: str, *args: object) -> int:
        """Begin a call in another thread."""
        return self.begin(name, *args, first=[("cuCtxSetCurrent", self.context)])

    def elsewhere_ok(self, name: str, *args: object) -> None:
        answer = self.finish(self.elsewhere(name, *args))
        assert (answer["done"], answer["result"]) == (True, SUCCESS)

    def stream(self, flags: int = 1) -> int:
        return self.number("cuStreamCreate", out(8), flags)

    def blocked(self, stream: int) -> int:
        """Let the stream wait; the address where a 1 lets it go on."""
        flag = self.number("cuMemHostAlloc", out(8), 4096, 0)
        self.ok("cuStreamWaitValue32_v2", stream, flag, 1, 0)
        return flag

    def let_go(self, flag: int) -> None:
        self.execute(f"ctypes.c_uint32.from_address({flag}).value = 1")

    def take(self, stream: int, size: int = 40 * MIB) -> int:
        return self.number("cuMemAllocAsync", out(8), size, stream)

    def take_from(self, pool: int, stream: int = 0, size: int = 1000) -> int:
        return self.number("cuMemAllocFromPoolAsync", out(8), size, pool, stream)

    def default_pool(self) -> int:
        return self.number("cuDeviceGetDefaultMemPool", out(8), 0)

    def own_pool(self) -> int:
        properties = struct.pack("<4i", 1, 0, 1, 0) + bytes(72)
        return self.number("cuMemPoolCreate", out(8), {"bytes": properties.hex()})

    def keep_everything(self) -> None:
        everything = {"bytes": struct.pack("<Q", (1 << 64) - 1).hex()}
        self.ok("cuMemPoolSetAttribute", self.default_pool(), THRESHOLD, everything)

    def amount(self, pool: int, which: int) -> int:
        return self.number("cuMemPoolGetAttribute", pool, which, out(8))

    def free_memory(self) -> int:
        return self.number("cuMemGetInfo_v2", out(8), out(8))


def begun(folder: Path, torpor: bool = True, **env: str) -> Job:
    job = Job(folder, environment if torpor else sim_environment, **env)
    job.context = job.start_up()
    return job


@pytest.fixture(params=["driver", "torpor"])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Job]:
    """With the driver's pools, or with Torpor's in front of them."""
    job = begun(tmp_path, torpor=request.param == "torpor")
    yield job
    job.end()


@pytest.fixture
def torpor(tmp_path: Path) -> Iterator[Job]:
    job = begun(tmp_path)
    yield job
    job.end()


@pytest.mark.parametrize("legacy", [False, True])
def test_what_another_thread_freed_goes_back_at_the_next_wait(either: Job, legacy: bool) -> None:
    before = either.free_memory()
    stream = 0 if legacy else either.stream()
    either.elsewhere_ok("cuMemFreeAsync", either.take(stream), stream)
    either.ok("cuStreamSynchronize", stream)
    assert either.free_memory() == before
    assert either.amount(either.default_pool(), RESERVED) == 0


@pytest.mark.parametrize("legacy", [False, True])
def test_what_another_thread_freed_is_for_all_when_its_stream_is_past_it(torpor: Job, legacy: bool) -> None:
    torpor.keep_everything()
    stream, other = 0 if legacy else torpor.stream(), torpor.stream()
    memory = torpor.take(stream)
    flag = torpor.blocked(stream)
    torpor.elsewhere_ok("cuMemFreeAsync", memory, stream)
    early = torpor.take(other)
    assert early != memory
    torpor.let_go(flag)
    torpor.ok("cuStreamSynchronize", stream)
    if legacy:  # by then a fence has been put behind the free
        torpor.ok("cuMemFreeAsync", torpor.take(other, 700), other)
        torpor.ok("cuMemPoolTrimTo", torpor.default_pool(), 1 << 40)
        torpor.ok("cuCtxSynchronize")
    assert torpor.take(other) == memory


def test_blocks_of_a_destroyed_pool_go_back_that_another_thread_freed(either: Job) -> None:
    before = either.free_memory()
    pool, stream = either.own_pool(), either.stream()
    memory = either.take_from(pool, stream, 40 * MIB)
    either.ok("cuMemPoolDestroy", pool)
    either.elsewhere_ok("cuMemFreeAsync", memory, stream)
    either.ok("cuStreamSynchronize", stream)
    assert either.free_memory() == before


def test_a_stream_with_nothing_of_its_own_is_behind_the_legacy_stream(torpor: Job) -> None:
    torpor.keep_everything()
    blocking, other = torpor.stream(0), torpor.stream()
    memory = torpor.take(blocking)
    torpor.ok("cuCtxSynchronize")
    flag = torpor.blocked(0)  # and works with the memory, say
    torpor.ok("cuMemFreeAsync", memory, blocking)
    assert torpor.take(other) != memory
    torpor.let_go(flag)
    torpor.ok("cuCtxSynchronize")
    assert torpor.take(other) == memory


def test_cumemfree_of_a_pools_memory_waits_for_nothing(either: Job) -> None:
    stream = either.stream()
    memory = either.take(stream)
    flag = either.blocked(stream)
    either.elsewhere_ok("cuMemFree_v2", memory)
    assert either.cuStreamQuery(stream)[0] != SUCCESS
    assert either.amount(either.default_pool(), USED) == 0
    assert either.cuMemFree_v2(memory)[0] == INVALID_VALUE
    either.let_go(flag)
    either.ok("cuCtxSynchronize")
    assert either.amount(either.default_pool(), RESERVED) == 0


def test_memory_that_was_taken_in_a_streams_order_stays_in_it(torpor: Job) -> None:
    """What the program never used may be in use by what it freed there before."""
    torpor.keep_everything()
    stream, other = torpor.stream(), torpor.stream()
    memory = torpor.take(stream)
    flag = torpor.blocked(stream)
    torpor.ok("cuMemFreeAsync", memory, stream)
    assert torpor.take(stream) == memory
    torpor.ok("cuMemFree_v2", memory)
    assert torpor.take(other) != memory
    assert torpor.take(stream) == memory
    torpor.ok("cuStreamDestroy_v2", stream)  # whose handle may be another's from now on
    freeing = torpor.elsewhere("cuMemFree_v2", memory)
    torpor.let_go(flag)
    assert torpor.finish(freeing)["result"] == SUCCESS
    assert torpor.take(other) == memory


@pytest.mark.parametrize("mode", [GLOBAL, THREAD_LOCAL, RELAXED])
@pytest.mark.parametrize("pooled", [True, False])
def test_a_free_in_the_legacy_stream_ends_the_capture_of_one_it_would_wait_for(
    either: Job, mode: int, pooled: bool
) -> None:
    memory = either.take(0) if pooled else either.allocate(MIB)
    either.ok("cuCtxSynchronize")
    stream, apart = either.stream(0), either.stream(1)
    either.ok("cuStreamBeginCapture_v2", stream, mode)
    assert either.cuMemFreeAsync(memory, 0)[0] == IMPLICIT
    assert either.cuStreamEndCapture(stream, out(8))[0] == INVALIDATED
    either.ok("cuMemsetD8_v2", memory, 1, MIB)
    either.ok("cuCtxSynchronize")
    if pooled:
        either.ok("cuStreamBeginCapture_v2", apart, RELAXED)
        either.ok("cuMemFreeAsync", memory, 0)
        either.ok("cuStreamEndCapture", apart, out(8))


@pytest.mark.parametrize("mode", [GLOBAL, THREAD_LOCAL, RELAXED])
@pytest.mark.parametrize("in_thread", [False, True])
def test_a_free_is_a_call_that_a_capture_may_forbid(either: Job, mode: int, in_thread: bool) -> None:
    stream, other = either.stream(), either.stream()
    memory = either.take(other)
    either.ok("cuCtxSynchronize")
    either.ok("cuStreamBeginCapture_v2", stream, mode)
    if in_thread:
        result = either.finish(either.elsewhere("cuMemFreeAsync", memory, other))["result"]
    else:
        result = either.cuMemFreeAsync(memory, other)[0]
    forbidden = mode == GLOBAL or (mode == THREAD_LOCAL and not in_thread)
    assert result == (UNSUPPORTED if forbidden else SUCCESS)
    assert either.cuStreamEndCapture(stream, out(8))[0] == (INVALIDATED if forbidden else SUCCESS)
    assert (either.cuMemFreeAsync(memory, other)[0] == SUCCESS) == forbidden


def test_what_is_freed_during_a_capture_is_unused_at_once(either: Job) -> None:
    memory = either.take(0)
    either.ok("cuCtxSynchronize")
    stream = either.stream()
    either.ok("cuStreamBeginCapture_v2", stream, RELAXED)
    either.ok("cuMemFree_v2", memory)
    assert either.amount(either.default_pool(), USED) == 0
    either.ok("cuStreamEndCapture", stream, out(8))


def test_a_thread_id_comes_again_and_its_stream_does_not(tmp_path: Path) -> None:
    interposer, driver = libraries()
    (tmp_path / "ctl").mkdir()
    worker = Worker(
        tmp_path,
        inside=("unshare", "--pid", "--fork", "--kill-child"),
        LD_PRELOAD=str(interposer),
        TORPOR_REAL_LIBCUDA=str(driver),
        TORPOR_JOB_DIR=str(tmp_path),
    )
    code = f"""
import threading, time
def in_thread(work):
    box = []
    def run():
        cuda().cuCtxSetCurrent(context)
        box.extend([threading.get_native_id(), work()])
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return box
def allocated():
    address = ctypes.c_uint64()
    size, stream = ctypes.c_uint64({40 * MIB}), ctypes.c_uint64({PER_THREAD})
    assert cuda().cuMemAllocAsync(ctypes.byref(address), size, stream) == 0
    return address.value
def first():
    address = allocated()
    assert cuda().cuStreamWaitValue32_v2(ctypes.c_uint64({PER_THREAD}), flag, 1, 0) == 0
    assert cuda().cuMemFreeAsync(ctypes.c_uint64(address), ctypes.c_uint64({PER_THREAD})) == 0
    return address
def second_with(wanted):
    while Path(f"/proc/self/task/{{wanted}}").exists():
        time.sleep(0.001)
    while True:
        Path("/proc/sys/kernel/ns_last_pid").write_text(str(wanted - 1))
        tid, address = in_thread(allocated)
        if tid == wanted:
            return address
"""
    try:
        context = worker.start_up()
        flag = worker.number("cuMemHostAlloc", out(8), 4096, 0)
        worker.python(f"exec({code!r}, globals())")
        worker.python(f"globals().update(context=ctypes.c_uint64({context}), flag=ctypes.c_uint64({flag}))")
        tid, freed = worker.python("in_thread(first)")
        assert worker.python(f"second_with({tid})") != freed
    finally:
        worker.end()


def test_a_pool_is_none_of_ours_from_before_the_driver_ends_it(tmp_path: Path) -> None:
    """After its end another thread may have made another pool of the same handle."""
    go_on = tmp_path / "go-on"
    job = begun(tmp_path, TORPOR_SIM_FAULT=f"cuMemPoolDestroy=hang:{go_on};cuMemPoolDestroy@2=fail:1")
    try:
        pool = job.own_pool()
        assert job.take_from(pool) in ARENA
        ending = job.elsewhere("cuMemPoolDestroy", pool)
        while job.take_from(pool) in ARENA:
            assert not job.finish(ending, 0.001)["done"]
        go_on.touch()
        assert job.finish(ending)["result"] == SUCCESS
        other = job.own_pool()
        assert job.cuMemPoolDestroy(other)[0] == 1
        assert job.take_from(other) in ARENA
    finally:
        go_on.touch()
        job.end()


def test_a_block_that_is_being_made_is_opened_like_the_others(tmp_path: Path) -> None:
    go_on = tmp_path / "go-on"
    job = begun(tmp_path, TORPOR_SIM_DEVICES="2", TORPOR_SIM_FAULT=f"cuMemCreate=hang:{go_on}")
    try:
        pool = job.own_pool()
        making = job.elsewhere("cuMemAllocFromPoolAsync", out(8), 1000, pool, 0)
        job.finish(making, 0.1)
        job.ok("cuMemPoolSetAccess", pool, {"bytes": struct.pack("<3i", 1, 1, 3).hex()}, 1)
        go_on.touch()
        answer = job.finish(making)
        address = int.from_bytes(bytes.fromhex(answer["outs"][0]), "little")
        assert address in ARENA
        other = {"bytes": struct.pack("<2i", 1, 1).hex()}
        assert job.number("cuMemGetAccess", out(8), other, address) == 3
    finally:
        go_on.touch()
        job.end()
