"""The pinned pool's bookkeeping, on real files in memory; the driver's part is a set of registered addresses."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.conftest import eventually
from torpor.errors import NoSpace
from torpor.image.manifest import SEGMENT
from torpor.keeper.pool import Pool


class Registered:
    """What is registered now; refuses what a driver refuses."""

    def __init__(self) -> None:
        self.addresses: dict[int, int] = {}

    def pin(self, address: int, size: int) -> None:
        assert address not in self.addresses
        self.addresses[address] = size

    def unpin(self, address: int) -> None:
        del self.addresses[address]


@pytest.fixture
def place() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="tp-pool-", dir="/dev/shm"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def registered() -> Registered:
    return Registered()


@pytest.fixture
def pool(place: Path, registered: Registered) -> Iterator[Pool]:
    made = Pool(place / "pool", registered.pin, registered.unpin, limit=3 * SEGMENT)
    yield made
    made.close()
    assert registered.addresses == {}


def test_a_segment_is_made_once_and_used_again(pool: Pool, registered: Registered) -> None:
    first = pool.acquire(to_keep=False)
    first.view()[:4] = b"here"
    pool.release(first)
    again = pool.acquire(to_keep=False)
    assert again is first
    assert len(registered.addresses) == 1
    assert first.path.read_bytes()[:4] == b"here"
    pool.release(again)
    assert pool.figures().free == SEGMENT


def test_taking_renames_the_very_file(pool: Pool, place: Path) -> None:
    segment = pool.acquire(to_keep=True)
    segment.view()[-3:] = b"end"
    inode = segment.path.stat().st_ino
    pool.take(segment, place / "0000.seg")
    assert (place / "0000.seg").stat().st_ino == inode
    assert (place / "0000.seg").read_bytes()[-3:] == b"end"
    assert (pool.figures().free, pool.figures().lent, pool.figures().kept) == (0, 0, SEGMENT)
    with pool.borrow(place / "0000.seg") as borrowed:
        assert borrowed is segment


def test_a_removed_file_gives_its_memory_back(pool: Pool, place: Path, registered: Registered) -> None:
    segment = pool.acquire(to_keep=True)
    pool.take(segment, place / "0000.seg")
    with pool.borrow(place / "0000.seg"):
        (place / "0000.seg").unlink()
        assert pool.sweep() == 0, "it is in use"
    assert pool.sweep() == 1
    assert registered.addresses == {}
    assert pool.figures().kept == 0


def test_reclaiming_brings_a_file_home(pool: Pool, place: Path) -> None:
    segment = pool.acquire(to_keep=True)
    pool.take(segment, place / "0000.seg")
    assert pool.reclaim(place / "0000.seg")
    assert not (place / "0000.seg").exists()
    assert pool.acquire(to_keep=False) is segment
    assert not pool.reclaim(place / "0001.seg")


def test_another_keepers_file_is_adopted(place: Path, registered: Registered) -> None:
    with (place / "0000.seg").open("wb") as file:
        file.truncate(SEGMENT)
        file.write(b"left by another")
    pool = Pool(place / "pool", registered.pin, registered.unpin, limit=SEGMENT)
    with pool.borrow(place / "0000.seg") as first:
        assert bytes(first.view(15)) == b"left by another"
    with pool.borrow(place / "0000.seg") as second:
        assert second is first
    pool.close()
    assert (place / "0000.seg").exists()
    assert registered.addresses == {}


def test_leftovers_of_a_killed_keeper_are_removed(place: Path, registered: Registered) -> None:
    left = place / "pool" / "keeper-of-old"
    left.mkdir(parents=True)
    (left / "000001.seg").write_bytes(b"x")
    pool = Pool(place / "pool", registered.pin, registered.unpin, limit=SEGMENT)
    assert list((place / "pool").iterdir()) == [pool.folder]
    pool.close()
    assert not (place / "pool").exists()


def test_the_pools_of_two_keepers_do_not_meet(place: Path, registered: Registered) -> None:
    """Another home's keeper shares the memory file system; starting and ending it must not touch the first's files."""
    first = Pool(place / "pool", registered.pin, registered.unpin, limit=SEGMENT)
    segment = first.acquire(to_keep=True)
    second = Pool(place / "pool", registered.pin, registered.unpin, limit=SEGMENT)
    first.take(segment, place / "0000.seg")
    second.release(second.acquire(to_keep=False))
    first.close()
    second.release(second.acquire(to_keep=False))
    second.close()
    assert not (place / "pool").exists()
    assert registered.addresses == {}


def test_at_the_limit_a_copy_waits_for_a_segment(pool: Pool) -> None:
    lent = [pool.acquire(to_keep=False) for _number in range(3)]
    got: list[object] = []
    waiter = threading.Thread(target=lambda: got.append(pool.acquire(to_keep=False)), daemon=True)
    waiter.start()
    extra = pool.acquire(to_keep=True)  # what goes into an image is not bound by the limit
    assert got == []
    pool.release(lent[0])
    waiter.join(100)
    assert got == [lent[0]]
    for segment in (*lent, extra):
        pool.release(segment)
    assert pool.figures().free == 3 * SEGMENT, "beyond the limit a segment goes for good"


def test_warming_grows_with_several_threads_and_raises_the_limit(pool: Pool) -> None:
    threads = [threading.Thread(target=pool.warm, args=(2 * SEGMENT,)) for _number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert pool.figures().free == 2 * SEGMENT
    assert pool.figures().limit == 3 * SEGMENT
    pool.warm(5 * SEGMENT)
    assert pool.figures().free == 5 * SEGMENT
    assert pool.figures().limit == 5 * SEGMENT, "what was asked for is kept between uses"


@pytest.mark.criu
def test_a_full_file_system_is_no_space_and_leaves_nothing(small_tmpfs: Path, registered: Registered) -> None:
    pool = Pool(small_tmpfs / "pool", registered.pin, registered.unpin, limit=10 * SEGMENT)
    first = pool.acquire(to_keep=True)
    with pytest.raises(NoSpace) as caught:
        pool.acquire(to_keep=True)
    assert caught.value.details["needed"] == SEGMENT
    assert eventually(lambda: list(pool.folder.iterdir()) == [first.path])
    pool.release(first)
    pool.close()
    assert registered.addresses == {}


@pytest.mark.criu
def test_a_copy_waits_for_the_memory_that_others_have(small_tmpfs: Path, registered: Registered) -> None:
    pool = Pool(small_tmpfs / "pool", registered.pin, registered.unpin, limit=10 * SEGMENT)
    at_a_time = []

    def copy(_number: int) -> int:
        segment = pool.acquire(to_keep=False)
        at_a_time.append(pool.figures().lent - pool._making * SEGMENT)
        time.sleep(0.01)
        pool.release(segment)
        return 1

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(copy, range(40), timeout=100)) == 40
    assert max(at_a_time) == SEGMENT
    kept = pool.acquire(to_keep=True)
    with pytest.raises(NoSpace):
        pool.acquire(to_keep=False)
    with ThreadPoolExecutor(8) as threads:
        failing = [threads.submit(pool.acquire, to_keep=False) for _ in range(8)]
        assert all(isinstance(one.exception(timeout=100), NoSpace) for one in failing)
    pool.release(kept)
    pool.close()
    assert registered.addresses == {}
