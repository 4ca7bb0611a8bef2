"""Processes of one job that share device memory: it is saved once, and both ends come back sharing it."""

from __future__ import annotations

from pathlib import Path

import pytest

import torpor
from tests.flow.walking import Reference, finish, paced, walk_on

pytestmark = pytest.mark.criu

SHARED_BYTES = (2 << 20) + (6 << 20) + (4 << 20)  # the slab of the small piece, the large one, the mapped one


@pytest.fixture(scope="module")
def undisturbed() -> Reference:
    return Reference("sharing.py")


@pytest.mark.parametrize("tier", ["disk", pytest.param("dram", marks=pytest.mark.full)])
def test_killed_and_restored_again_and_again(home: Path, undisturbed: Reference, tier: str) -> None:
    del home
    job = torpor.run(paced("sharing.py", steps=20), name="sharers", gpu="sim")
    walk_on(job, 5)
    for _time in range(2):
        image = job.checkpoint(tier=tier)
        assert image.manifest.gpu_bytes == SHARED_BYTES
        owners = {process.pid for process in image.manifest.processes if process.blocks}
        shared = [(process.pid, one) for process in image.manifest.processes for one in process.shared]
        assert len(owners) == 1
        assert len(shared) == 3
        assert all(pid not in owners and one.owner[0] in owners for pid, one in shared)
        job = torpor.restore(image)
        walk_on(job, 3)
    assert finish(job) == undisturbed


@pytest.mark.parametrize("tier", ["dram", pytest.param("hbm", marks=pytest.mark.full)])
def test_suspended_and_resumed(home: Path, undisturbed: Reference, tier: str) -> None:
    del home
    job = torpor.run(paced("sharing.py", steps=20), name="sharers", gpu="sim")
    for _time in range(2):
        walk_on(job, 5)
        moved = job.suspend(tier=tier)
        assert moved.bytes == SHARED_BYTES
        job.resume()
    assert finish(job) == undisturbed


def test_an_event_whose_maker_has_ended(home: Path) -> None:
    del home
    reference = Reference("orphaned.py")
    job = torpor.run(paced("orphaned.py", steps=20), name="orphans", gpu="sim")
    for _time in range(2):
        walk_on(job, 5)
        job = torpor.restore(job.checkpoint())
    walk_on(job, 3)
    assert finish(job) == reference
