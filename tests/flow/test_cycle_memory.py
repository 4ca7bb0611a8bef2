"""Where the bytes rest: pinned memory becomes images and comes back, and nobody's memory is kept for nothing."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY, eventually
from torpor import api, paths
from torpor.image.manifest import SEGMENT
from torpor.keeper.client import KeeperClient
from torpor.records import JobState

pytestmark = pytest.mark.criu


@pytest.fixture
def counter(home: Path) -> api.Job:
    """A job with 150 MiB of device memory, which is three segments."""
    del home
    program = [sys.executable, str(REPOSITORY / "examples" / "count.py"), "--mib", "150", "--delay", "0.02"]
    job = api.run(program, name="count", gpu="sim")
    goes_on(job)
    return job


def count(job: api.Job) -> int:
    """The last number that the job printed, 0 before the first. The program itself checks all its memory."""
    numbers = [line for line in b"".join(job.logs()).split(b"\n") if line.startswith(b"count ")]
    return int(numbers[-1].split()[1]) if numbers else 0


def goes_on(job: api.Job) -> None:
    before = count(job)
    eventually(lambda: count(job) > before + 2)
    assert job.state is JobState.RUNNING


def pool() -> dict[str, int]:
    figures: dict[str, Any] = KeeperClient("sim").call("status")["pool"]
    return figures


def inodes(folder: Path) -> set[int]:
    return {file.stat().st_ino for file in folder.glob("*.seg")}


def test_segments_go_round_between_pool_and_images(counter: api.Job) -> None:
    image = counter.checkpoint(tier="dram", leave_running=True)
    mine = inodes(image.path / "gpu")
    assert len(mine) == 3
    assert pool()["kept"] == 3 * SEGMENT
    image.remove()
    assert (pool()["free"], pool()["kept"]) == (3 * SEGMENT, 0)
    again = counter.checkpoint(tier="dram")
    assert inodes(again.path / "gpu") == mine
    goes_on(api.restore(again))


def test_an_image_removed_by_hand_frees_its_memory(counter: api.Job) -> None:
    image = counter.checkpoint(tier="dram", leave_running=True)
    shutil.rmtree(image.path)
    eventually(lambda: pool()["kept"] == 0)
    goes_on(counter)


def test_another_keeper_finds_the_segments_in_the_files(counter: api.Job) -> None:
    image = counter.checkpoint(tier="dram")
    api.keeper_stop("sim")
    woken = api.restore(image)
    goes_on(woken)
    assert pool()["kept"] == 3 * SEGMENT


def test_a_job_larger_than_the_pool_streams_through_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORPOR_POOL_MAX", "64M")
    program = [sys.executable, str(REPOSITORY / "examples" / "count.py"), "--mib", "150", "--delay", "0.02"]
    job = api.run(program, name="count", gpu="sim")
    goes_on(job)
    image = job.checkpoint()
    assert image.path.is_relative_to(home)
    assert all(entry.hash for entry in image.manifest.segments())
    assert pool() == {"free": SEGMENT, "lent": 0, "kept": 0, "limit": SEGMENT}
    goes_on(api.restore(image))
    assert pool() == {"free": SEGMENT, "lent": 0, "kept": 0, "limit": SEGMENT}


def test_an_image_in_memory_that_was_copied_to_a_disk_still_restores(counter: api.Job, home: Path) -> None:
    image = counter.checkpoint(tier="dram")
    moved = shutil.copytree(image.path, home / "images" / "moved")
    image.remove()
    goes_on(api.restore(moved))


def test_the_memory_of_a_suspended_job_goes_with_it(counter: api.Job) -> None:
    counter.suspend(tier="dram")
    (place,) = (paths.dram_dir() / ".jobs").glob("*/count")
    assert len(inodes(place / "gpu")) == 3
    counter.kill(9)
    eventually(lambda: not place.exists())
    eventually(lambda: pool()["kept"] == 0)
    assert counter.state is JobState.KILLED
