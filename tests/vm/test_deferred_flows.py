"""Jobs with deferred calls are checkpointed like any other: an image never holds a call that the driver has not had."""

from __future__ import annotations

from pathlib import Path

import pytest

import torpor
from tests.conftest import eventually
from tests.flow import walking
from tests.flow.test_under_load import load, works_on
from torpor import paths
from torpor.keeper.control import ControlClient, sockets_in

pytestmark = pytest.mark.criu
__all__ = ["load"]  # a fixture

LEVELS = ["always", pytest.param("always-full", marks=pytest.mark.full)]


def hello(job: torpor.Job) -> list[dict[str, int]]:
    """What each process of a job says of its deferred calls and answers."""
    folder = paths.control_dir(job.name)
    found = []
    for pid in sockets_in(folder):
        with ControlClient(folder, pid) as control:
            found.append(control.hello().vm)
    return found


def deferred(job: torpor.Job) -> int:
    """How many calls the processes of a job have deferred so far."""
    return sum(vm["deferred"] for vm in hello(job))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("cycles", [4, pytest.param(20, marks=[pytest.mark.full, pytest.mark.timeout(900)])])
def test_cycles_with_work_between(home: Path, cycles: int, level: str) -> None:
    del home
    undisturbed = walking.reference()
    job = torpor.run(walking.command(), name="walk", gpu="sim", env={"TORPOR_VM": level})
    for number in range(cycles):
        walking.walk_on(job, 5)
        before = deferred(job)
        walking.walk_on(job, 5)
        assert deferred(job) > before
        if number % 2:
            job.suspend(tier="hbm" if number % 4 == 1 else "dram")
            job.resume()
        else:
            job = torpor.restore(job.checkpoint(tier="dram"))
    assert walking.finish(job) == undisturbed


@pytest.mark.parametrize("level", LEVELS)
def test_busy_threads_do_not_notice(home: Path, load: Path, tmp_path: Path, level: str) -> None:
    del home
    stop = tmp_path / "stop"
    job = torpor.run([str(load), "8", str(stop)], name="load", gpu="sim", env={"TORPOR_VM": level})
    for _ in range(3):
        works_on(job)
        job.checkpoint(tier="dram", leave_running=True).remove()
    job = torpor.restore(job.checkpoint(tier="dram"))
    works_on(job)
    assert deferred(job) > 0
    stop.touch()
    assert job.wait(100)
    assert job.exit_code == 0, b"".join(job.logs())[-300:]


def test_the_option_reaches_the_job(home: Path) -> None:
    del home
    job = torpor.run(walking.command(), name="walk", gpu="sim", vm="defer")
    walking.walk_on(job, 5)
    [pid] = [pid for pid in walking.processes_of(paths.home()) if pid != job.record.supervisor_pid]
    assert "TORPOR_VM=defer" in Path(f"/proc/{pid}/environ").read_text().split("\0")
    assert eventually(lambda: sockets_in(paths.control_dir(job.name)))
    job.kill()
