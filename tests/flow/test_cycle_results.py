"""Whatever happens to a job, it prints what it prints when nothing happens to it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import torpor
from tests.conftest import eventually
from tests.flow import walking
from tests.flow.walking import Reference, command, finish, output, reference, walk_on
from torpor import api, paths

pytestmark = pytest.mark.criu


@pytest.fixture(scope="module")
def undisturbed() -> Reference:
    return reference()


def begin(name: str = "walk", *more: str, arena: bool = True) -> torpor.Job:
    job = torpor.run(command(*more), name=name, gpu="sim", arena=arena)
    walk_on(job)
    return job


@pytest.mark.parametrize("arena", [True, False], ids=["arena", "no-arena"])
@pytest.mark.parametrize("tier", ["disk", "dram"])
def test_after_kill_and_restore(home: Path, undisturbed: Reference, tier: str, arena: bool) -> None:
    job = begin(arena=arena)
    image = job.checkpoint(tier=tier)
    assert job.state is torpor.JobState.ASLEEP
    eventually(lambda: not walking.processes_of(home))
    assert image.manifest.gpu_bytes > 0 if arena else image.manifest.gpu_bytes == 0
    image.verify()
    assert finish(torpor.restore(image)) == undisturbed


@pytest.mark.parametrize("tier", ["hbm", "dram"])
def test_after_suspend_and_resume(home: Path, undisturbed: Reference, tier: str) -> None:
    job = begin()
    for _time in range(2):
        before = walking.traces(home)
        moved = job.suspend(tier=tier)
        assert moved.bytes >= sum(size for size in (4 << 20, 6 << 20, 3 << 20))
        standing = output(job)
        assert job.state is torpor.JobState.SUSPENDED
        job.resume()
        walk_on(job)
        assert set(standing) <= set(output(job))
        assert walking.traces(home) == before
    assert finish(job) == undisturbed


def test_a_suspended_job_outlives_its_keeper(undisturbed: Reference, home: Path) -> None:
    del home
    job = begin()
    for tier in ("hbm", "dram"):
        job.suspend(tier=tier)
        assert api.keeper_stop("sim")
        job.resume()
        walk_on(job)
    assert finish(job) == undisturbed


def test_after_two_checkpoints_that_leave_it_running(home: Path, undisturbed: Reference) -> None:
    del home
    job = begin()
    first = job.checkpoint(leave_running=True)
    walk_on(job)
    second = job.checkpoint(leave_running=True, tier="dram")
    assert finish(job) == undisturbed
    for number, image in enumerate((first, second)):
        assert finish(torpor.restore(image, name=f"again-{number}")) == undisturbed


def test_the_same_image_twice(home: Path, undisturbed: Reference) -> None:
    job = begin()
    image = job.checkpoint(tier="dram")
    assert finish(torpor.restore(image, name="first")) == undisturbed
    files = walking.files(image.path)
    assert finish(torpor.restore(image, name="second")) == undisturbed
    assert walking.files(image.path) == files
    # At the same time, too: each has process ids of its own.
    with ThreadPoolExecutor() as threads:
        together = list(threads.map(lambda name: torpor.restore(image, name=name), ("third", "fourth", "fifth")))
    assert [finish(one) for one in together] == [undisturbed] * 3
    eventually(lambda: not walking.processes_of(home))


def test_a_woken_job_can_be_put_to_sleep_again(home: Path, undisturbed: Reference) -> None:
    del home
    job = begin()
    for _time in range(3):
        image = job.checkpoint(tier="dram")
        job = torpor.restore(image)
        assert job.name == "walk"
        assert [entry.name for entry in paths.jobs_dir().iterdir()] == ["walk"]
        walk_on(job)
    assert finish(job) == undisturbed


def test_a_job_without_cuda_has_the_same_verbs(home: Path) -> None:
    counts = f"i=0; while [ ! -e {home}/go ]; do i=$((i+1)); echo $i; sleep 0.02; done"
    job = torpor.run(["sh", "-c", counts], name="plain", gpu="sim")
    walk_on(job, 3)
    job.suspend()
    job.resume()
    image = job.checkpoint(leave_running=True)
    assert image.manifest.processes == []
    walk_on(job, 3)
    image = job.checkpoint()
    standing = walking.printed(job)
    woken = torpor.restore(image)
    walk_on(woken, 3)
    (home / "go").touch()
    assert woken.wait(100)
    lines = b"".join(woken.logs()).splitlines()
    assert lines == [b"%d" % number for number in range(1, len(lines) + 1)]
    assert len(lines) >= standing + 3
