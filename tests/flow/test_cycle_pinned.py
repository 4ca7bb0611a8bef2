"""Large pinned host memory goes into images and comes back by its own way, and is nobody else's."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.conftest import eventually, start_keeper
from tests.flow.walking import Reference, finish, output, paced, through_a_store, walk_on
from torpor import api
from torpor.errors import ImageDamaged, NoRights, NoSpace, TorporError
from torpor.process import pinned, tree
from torpor.records import JobState

pytestmark = pytest.mark.criu

MIB = 1 << 20
PROGRAM = Path(__file__).with_name("pinned.py")
LARGE = 1040 * MIB
MANY = 2500
FEW_DESCRIPTORS = ("prlimit", "--nofile=1024:1024", "setpriv", "--bounding-set", "-sys_resource")
SIZES = [5 * MIB, 8 * MIB, 96 * MIB + 4096]
USED = 8 * MIB + 2 * 4096
"""Bytes of the program's memory that are not zero, at least."""


@pytest.fixture(scope="module")
def undisturbed() -> Reference:
    known = Reference("pinned.py")
    assert "child 0" in known.after(20)
    return known


def begin(name: str = "pinned") -> api.Job:
    return api.run(paced("pinned.py", steps=20), name=name, gpu="sim")


def blocks(files: list[Path]) -> int:
    """Bytes that the files take."""
    return sum(file.stat().st_blocks * 512 for file in files)


@pytest.mark.parametrize("tier", ["disk", "dram"])
def test_killed_and_restored_again(home: Path, undisturbed: Reference, tier: str) -> None:
    del home
    job = begin()
    for _time in range(2):
        walk_on(job, 5)
        image = job.checkpoint(tier=tier)
        assert sorted(file.size for file in pinned.read_index(image.path)) == SIZES
        pieces = [file for file in (image.path / "pinned").iterdir() if file.name != "index.json"]
        assert USED <= blocks(pieces) < sum(SIZES) // 2  # zeros are left out
        assert image.manifest.cpu_bytes >= sum(SIZES)
        image.verify()
        job = api.restore(image)
    assert finish(job) == undisturbed


def test_more_than_a_deleted_file_may_have(home: Path) -> None:
    """Files without names of more than 1 GiB are refused, unless they are these."""
    allocate = f"""
import sys, time
sys.path.insert(0, {str(PROGRAM.parent)!r})
from cuda.bindings import driver
from pinned import check
check(driver.cuInit(0))
check(driver.cuCtxSetCurrent(check(driver.cuDevicePrimaryCtxRetain(0))))
memory = int(check(driver.cuMemHostAlloc({LARGE}, 0)))
check(driver.cuMemsetD8(memory + {LARGE - 8}, 7, 8))
while True:
    print(check(driver.cuMemcpyDtoH(place := bytearray(8), memory + {LARGE - 8}, 8)) or place.hex(), flush=True)
    time.sleep(0.05)
"""
    del home
    job = api.run([sys.executable, "-c", allocate], name="pinned", gpu="sim")
    walk_on(job, 2)
    image = job.checkpoint(tier="dram")
    assert [file.size for file in pinned.read_index(image.path)] == [LARGE]
    job = api.restore(image)
    walk_on(job, 2)
    assert set(output(job)) == {"07" * 8}


def test_more_files_than_a_packet_has_room_for(home: Path) -> None:
    """So many come together in jobs of several processes. They may be more than a keeper may have open."""
    hold = f"""
import mmap, os, time
kept = []
for number in range({MANY}):
    file = os.open(os.environ["TORPOR_PINNED"], os.O_TMPFILE | os.O_RDWR)
    os.truncate(file, 4096)
    memory = mmap.mmap(file, 4096)
    memory[:4] = number.to_bytes(4, "big")
    kept.append(memory)
    os.close(file)
os.closerange(3, 3 * {MANY})  # the copies that Python keeps
while True:
    print(all(memory[:4] == number.to_bytes(4, "big") for number, memory in enumerate(kept)), flush=True)
    time.sleep(0.05)
"""
    job = api.run([sys.executable, "-c", hold], name="pinned", gpu="sim")
    for prefix in (FEW_DESCRIPTORS, ()):
        start_keeper(home, prefix=prefix)
        walk_on(job, 2)
        image = job.checkpoint(tier="dram")
        assert len(pinned.read_index(image.path)) == MANY
        if prefix:
            with pytest.raises(NoRights, match=f"in {MANY} files, .* no more than 1024 open"):
                api.restore(image)
            start_keeper(home)
        job = api.restore(image)
    walk_on(job, 2)
    assert set(output(job)) == {"True"}


def test_in_a_store(home: Path, undisturbed: Reference) -> None:
    assert finish(through_a_store(begin(), str(home / "store"))) == undisturbed


@pytest.mark.parametrize("tier", ["hbm", "dram"])
def test_suspended_saved_and_resumed(home: Path, undisturbed: Reference, tier: str) -> None:
    del home
    job = begin()
    walk_on(job, 5)
    job.suspend(tier=tier)
    image = job.checkpoint(leave_running=True)
    job.resume()
    assert finish(job) == undisturbed
    assert finish(api.restore(image, name="later")) == undisturbed


def test_two_lives_share_nothing(home: Path, undisturbed: Reference) -> None:
    del home
    job = begin()
    walk_on(job, 5)
    image = job.checkpoint(leave_running=True)
    copies = [api.restore(image, name=name) for name in ("left", "right")]
    for copy in copies:
        walk_on(copy, 5)
    assert [finish(one) == undisturbed for one in (job, *copies)] == [True] * 3


def test_memory_goes_with_the_process(home: Path) -> None:
    """The files have no names, so nothing of them is left when a process of the job is killed."""
    del home
    job = api.run(["sh", "-c", f"{' '.join(paced('pinned.py', steps=20))}; sleep 1000"], name="pinned", gpu="sim")
    walk_on(job, 5)
    supervisor = job.record.supervisor_pid
    assert supervisor is not None
    place = Path(f"/proc/{supervisor}/root/run/torpor/pinned")
    assert used(place) >= sum(SIZES)
    (shell,) = (int(pid) for pid in Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split())
    for process in tree.below(supervisor, shell).processes:
        if process.comm.startswith("python"):
            with suppress(ProcessLookupError):  # one may end with the one before
                os.kill(process.pid, 9)
    eventually(lambda: used(place) == 0)
    assert list(place.iterdir()) == []


def used(place: Path) -> int:
    status = os.statvfs(place)
    return (status.f_blocks - status.f_bfree) * status.f_frsize


def test_damage_is_found_before_anything_starts(home: Path) -> None:
    del home
    job = begin()
    walk_on(job, 5)
    image = job.checkpoint(tier="disk")
    piece = image.path / "pinned" / "0000"
    with piece.open("r+b") as file:
        file.seek(1000)
        file.write(b"other")
    with pytest.raises(ImageDamaged, match="pinned/0000"):
        api.restore(image)
    piece.unlink()
    with pytest.raises(ImageDamaged, match="pinned/0000"):
        api.restore(image)


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("wait for pinned memory=fail:28", NoSpace),
        ("wait for pinned memory:end=kill", TorporError),
        ("thaw=fail", TorporError),
    ],
)
def test_a_fault_loses_nothing(home: Path, undisturbed: Reference, fault: str, error: type[TorporError]) -> None:
    job = begin()
    walk_on(job, 5)
    start_keeper(home, {"TORPOR_FAULT": fault})
    with pytest.raises(error):
        job.checkpoint(leave_running=True)
    start_keeper(home)  # which brings back what a dead one left
    eventually(lambda: job.state is not JobState.CHECKPOINTING)
    walk_on(job, 5)
    image = job.checkpoint()
    assert finish(api.restore(image)) == undisturbed
