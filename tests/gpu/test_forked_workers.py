"""Children forked after CUDA was initialised, which hold the driver's device files and have no context."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import torpor
from tests.gpu.conftest import Reference, output, wait_for_line
from torpor.process import tree

Start = Callable[[list[str]], torpor.Job]
HERE = Path(__file__).parent

LOADER = [sys.executable, str(HERE / "loader_order.py"), "--delay", "0.05"]
FORKING = [sys.executable, str(HERE.parent / "flow" / "forking.py")]


def holders(job: torpor.Job) -> int:
    """How many of the job's processes have GPU device files open or mapped."""
    record = torpor.job(job.name).record
    assert record.supervisor_pid is not None
    return sum(one.uses_gpu for one in tree.read(record.supervisor_pid, 300).processes)


def finish(job: torpor.Job, expected: str) -> None:
    assert job.wait(timeout=120), output(job)[-2000:]
    assert output(job) == expected
    assert job.exit_code == 0


@pytest.mark.parametrize("way", ["restore", "leave-running", "suspend"])
def test_a_loader_goes_on_in_the_same_order(start: Start, reference: Reference, way: str) -> None:
    """In the middle of the second epoch, with batches under way between the processes."""
    expected = reference(LOADER)
    job = start(LOADER)
    wait_for_line(job, "batch 1.7 ")
    if way == "restore":
        job = torpor.restore(job.checkpoint(tier="dram"))
        assert holders(job) == 1
    elif way == "leave-running":
        image = job.checkpoint(tier="dram", leave_running=True)
        finish(torpor.restore(image), expected)
    else:
        job.suspend(tier="hbm")
        assert holders(job) == 0
        job.resume()
    finish(job, expected)


def test_sleeping_children_work_after_a_restore(start: Start, tmp_path: Path) -> None:
    job = start([*FORKING, "fork", str(tmp_path / "go")])
    wait_for_line(job, "ready")
    assert holders(job) == 5
    woken = torpor.restore(job.checkpoint(tier="dram"))
    assert holders(woken) == 1
    (tmp_path / "go").touch()
    finish(
        woken,
        "ready\nwork: WORK\nnumbers as before: True\nCUDA_ERROR_NOT_INITIALIZED\nparent: 7\n",
    )
