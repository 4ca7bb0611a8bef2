"""Large memory that a program registered goes into images and comes back by the way of pinned memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.flow.walking import Reference, finish, paced, through_a_store, walk_on
from torpor import api
from torpor.process import pinned

pytestmark = pytest.mark.criu

MIB = 1 << 20


@pytest.fixture(scope="module")
def undisturbed() -> Reference:
    known = Reference("registered.py")
    assert "child 0" in known.after(20)
    return known


def begin(**env: str) -> api.Job:
    return api.run(paced("registered.py", steps=20), name="registered", gpu="sim", env=env)


def has_files(image: api.Image) -> bool:
    """Of the large piece, and of the other, unless it was not registered at that moment.

    A file is somewhat larger, so that huge pages begin where they do in memory.
    """
    sizes = [file.size // MIB for file in pinned.read_index(image.path)]
    return any(47 <= size <= 50 for size in sizes) and all(36 <= size <= 38 or size >= 47 for size in sizes)


@pytest.mark.parametrize("tier", ["disk", "dram"])
def test_killed_and_restored_again(home: Path, undisturbed: Reference, tier: str) -> None:
    del home
    job = begin()
    for _time in range(3):
        walk_on(job, 5)
        image = job.checkpoint(tier=tier)
        assert has_files(image)
        image.verify()
        job = api.restore(image)
    assert finish(job) == undisturbed


def test_in_a_store(home: Path, undisturbed: Reference) -> None:
    assert finish(through_a_store(begin(), str(home / "store"))) == undisturbed


@pytest.mark.parametrize("tier", ["hbm", "dram"])
def test_suspended_saved_and_resumed(home: Path, undisturbed: Reference, tier: str) -> None:
    del home
    job = begin()
    walk_on(job, 5)
    job.suspend(tier=tier)
    image = job.checkpoint(leave_running=True)
    assert has_files(image)
    job.resume()
    assert finish(job) == undisturbed
    assert finish(api.restore(image, name="later")) == undisturbed


def test_while_memory_is_registered_and_unregistered(home: Path, undisturbed: Reference) -> None:
    """A checkpoint may begin while pages are being exchanged, and leaves the job as it is."""
    del home
    job = api.run(paced("registered.py", steps=20, delay=0), name="registered", gpu="sim")
    for _time in range(6):
        walk_on(job, 2)
        image = job.checkpoint(tier="dram", leave_running=True)
        assert has_files(image)
    assert finish(job) == undisturbed


def test_left_to_criu(home: Path, undisturbed: Reference) -> None:
    del home
    job = begin(TORPOR_PINNED="driver")
    walk_on(job, 5)
    image = job.checkpoint()
    assert pinned.read_index(image.path) == []
    assert finish(api.restore(image)) == undisturbed
