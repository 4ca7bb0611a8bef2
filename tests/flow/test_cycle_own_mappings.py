"""Memory that a program made and mapped itself is on the fast path, and comes back with its handles and mappings."""

from __future__ import annotations

from pathlib import Path

import pytest

import torpor
from tests.flow.walking import Reference, finish, paced, walk_on

pytestmark = pytest.mark.criu


@pytest.fixture(scope="module")
def undisturbed() -> Reference:
    return Reference("own_mappings.py")


@pytest.mark.parametrize("tier", ["disk", pytest.param("dram", marks=pytest.mark.full)])
def test_killed_and_restored_again_and_again(home: Path, undisturbed: Reference, tier: str) -> None:
    del home
    job = torpor.run(paced("own_mappings.py", steps=20), name="mapper", gpu="sim")
    walk_on(job, 5)
    for _time in range(2):
        image = job.checkpoint(tier=tier)
        assert image.manifest.gpu_bytes == 11 * (2 << 20)  # each memory once, however often it is mapped
        job = torpor.restore(image)
        walk_on(job, 3)
    assert finish(job) == undisturbed


@pytest.mark.parametrize("tier", ["dram", pytest.param("hbm", marks=pytest.mark.full)])
def test_suspended_and_resumed(home: Path, undisturbed: Reference, tier: str) -> None:
    del home
    job = torpor.run(paced("own_mappings.py", steps=20), name="mapper", gpu="sim")
    for _time in range(2):
        walk_on(job, 5)
        job.suspend(tier=tier)
        job.resume()
    assert finish(job) == undisturbed
