"""Objects of the driver come back with their handles; work under way is waited for, or the checkpoint is refused."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

import torpor
from tests.cases import rounds
from tests.conftest import eventually
from torpor.errors import FreezeTimeout, Refused
from torpor.records import JobState

pytestmark = pytest.mark.criu

PROGRAM = Path(__file__).with_name("under_way.py")


def test_group(home: Path, tmp_path: Path) -> None:
    del home
    reference = rounds.native("streams", tmp_path / "native", 2)
    assert rounds.cycled("streams", tmp_path / "job", 2) == reference


def begin(what: str, folder: Path) -> torpor.Job:
    argv = [sys.executable, str(PROGRAM), what, str(folder)]
    job = torpor.run(argv, name="busy", gpu="sim", env=rounds.ENVIRONMENT)
    eventually(lambda: "ready" in rounds.output(job) or job.state is not JobState.RUNNING)
    assert rounds.output(job) == ["ready"]
    return job


def ends(job: torpor.Job, folder: Path) -> list[str]:
    (folder / "go").touch()
    assert job.wait(100)
    assert job.exit_code == 0, rounds.output(job)
    return rounds.output(job)


def test_a_kernel_that_spins(home: Path, tmp_path: Path) -> None:
    del home
    job = begin("spinning", tmp_path)
    began = time.monotonic()
    with pytest.raises(FreezeTimeout, match="GPU 0 is busy"):
        job.checkpoint(deadline=0.5)
    assert time.monotonic() - began < 60
    assert job.state is JobState.RUNNING
    assert ends(job, tmp_path) == ["ready", "[5]"]


def test_a_host_function_runs_once(home: Path, tmp_path: Path) -> None:
    del home
    job = begin("calling_back", tmp_path)
    woken = torpor.restore(job.checkpoint(deadline=20))
    assert ends(woken, tmp_path) == ["ready", "[9] [18, 1]"]


def test_a_capture_is_not_disturbed(home: Path, tmp_path: Path) -> None:
    del home
    job = begin("capturing", tmp_path)
    with pytest.raises(Refused, match="it is capturing a CUDA graph"):
        job.checkpoint()
    assert ends(job, tmp_path) == ["ready", "[10]"]


def test_state_of_a_context(home: Path, tmp_path: Path) -> None:
    """What kernels printed comes out at the checkpoint, if not before: the lines are the same, not their places."""
    del home
    reference = rounds.native("device_state", tmp_path / "native", 2)
    found = rounds.cycled("device_state", tmp_path / "job", 2)
    assert sorted(found) == sorted(reference)
    said = [line for line in found if line.startswith("kernel says")]
    assert said == [f"kernel says {number}" for number in range(1, len(said) + 1)]
    assert len(said) >= 4
