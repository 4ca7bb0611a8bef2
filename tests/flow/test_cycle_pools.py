"""Stream-ordered memory comes back right: contents, attributes, and pools that still reuse what they have."""

from __future__ import annotations

from pathlib import Path

import pytest

import torpor
from tests.flow.walking import Reference, finish, paced, walk_on

pytestmark = pytest.mark.criu

MIB = 1 << 20


@pytest.fixture(scope="module")
def undisturbed() -> Reference:
    known = Reference("pools.py")
    assert "flat True" in known.after(20)
    return known


@pytest.mark.parametrize("tier", ["disk", pytest.param("dram", marks=pytest.mark.full)])
def test_killed_and_restored_again(home: Path, undisturbed: Reference, tier: str) -> None:
    del home
    job = torpor.run(paced("pools.py", steps=20), name="pools", gpu="sim")
    for _time in range(2):
        walk_on(job, 5)
        image = job.checkpoint(tier=tier)
        assert image.manifest.gpu_bytes >= 2 * 26 * MIB  # what each pool holds is on our own path
        job = torpor.restore(image)
    assert finish(job) == undisturbed


def test_suspended_and_resumed(home: Path, undisturbed: Reference) -> None:
    del home
    job = torpor.run(paced("pools.py", steps=20), name="pools", gpu="sim")
    for _time in range(2):
        walk_on(job, 5)
        job.suspend()
        job.resume()
    assert finish(job) == undisturbed
