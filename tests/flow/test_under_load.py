"""A job with many busy threads is stopped again and again, and never notices; nothing grows from cycle to cycle."""

from __future__ import annotations

from pathlib import Path

import pytest

import torpor
from tests.conftest import eventually
from tests.flow import walking
from tests.native.compiled import compiled
from torpor.bench.held import MIB, Held, held, processes_of
from torpor.keeper.client import KeeperClient

pytestmark = pytest.mark.criu


@pytest.fixture
def load() -> Path:
    """The program of tests/native/load."""
    return compiled("tests/native/load/load.cpp", "-ldl")


def rounds(job: torpor.Job) -> int:
    whole = b"".join(job.logs()).rpartition(b"\n")[0].splitlines()
    return int(whole[-1].split()[1]) if whole else 0


def works_on(job: torpor.Job) -> None:
    before = rounds(job)
    eventually(lambda: rounds(job) > before or job.exit_code is not None)
    assert job.state is torpor.JobState.RUNNING, b"".join(job.logs())[-300:]


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("threads", "times"), [(8, 4), pytest.param(64, 40, marks=[pytest.mark.full, pytest.mark.timeout(900)])]
)
def test_busy_threads_do_not_notice(load: Path, tmp_path: Path, threads: int, times: int) -> None:
    stop = tmp_path / "stop"
    job = torpor.run([str(load), str(threads), str(stop)], name="load", gpu="sim")
    for time in range(times):
        works_on(job)
        if time % 2:
            job.suspend(tier="hbm" if time % 4 == 1 else "dram")
            job.resume()
        else:
            job.checkpoint(tier="dram", leave_running=True).remove()
    works_on(job)
    job = torpor.restore(job.checkpoint(tier="dram"))
    works_on(job)
    stop.touch()
    assert job.wait(100)
    assert job.exit_code == 0, b"".join(job.logs())[-300:]


def keeper() -> set[int]:
    return {int(KeeperClient("sim").call("status")["pid"])}


@pytest.mark.parametrize("cycles", [4, pytest.param(20, marks=[pytest.mark.full, pytest.mark.timeout(900)])])
@pytest.mark.parametrize("way", ["checkpoint", "suspend"])
def test_nothing_grows_from_cycle_to_cycle(home: Path, way: str, cycles: int) -> None:
    undisturbed = walking.reference()
    job = torpor.run(walking.command(), name="walk", gpu="sim")
    found: list[tuple[Held, Held, int]] = []
    for number in range(cycles):
        walking.walk_on(job, 3)
        size = 0
        if way == "suspend":
            job.suspend(tier="hbm" if number % 2 else "dram")
            job.resume()
        else:
            image = job.checkpoint(tier="dram")
            size = image.manifest.cpu_bytes + image.manifest.gpu_bytes
            restored = torpor.restore(image, name=f"walk-{number}x")
            job.remove()
            image.remove()
            job = restored
        walking.walk_on(job, 1)
        found.append((held(processes_of(home)), held(keeper()), size))
        # What is in the midst of something holds more for a moment.
        if number > 1:
            eventually(lambda: held(processes_of(home)).is_no_more_than(found[1][0]))
            eventually(lambda: held(keeper()).is_no_more_than(found[1][1]))
            assert size <= found[1][2] + 16 * MIB, found
    assert walking.finish(job) == undisturbed
