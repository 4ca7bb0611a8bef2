"""A training loop in CUDA C++ (train.py) that is put to sleep and woken trains as if nothing had happened."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import torpor
from tests.flow.walking import STEPS, may_end, paced, program, walk_on
from torpor import paths

pytestmark = pytest.mark.criu


def undisturbed(devices: int, steps: int = STEPS) -> list[str]:
    """What it prints on the software GPU without Torpor."""
    library = paths.software_gpu()
    assert library is not None
    done = subprocess.run(
        program("train.py", "--steps", str(steps)),
        env={**os.environ, "TORPOR_SIM_DEVICES": str(devices), "LD_LIBRARY_PATH": str(library.parent)},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def losses(line: str) -> list[float]:
    return [float.fromhex(loss) for loss in line.split()[1:]]


@pytest.mark.parametrize("devices", [2, *(pytest.param(count, marks=pytest.mark.full) for count in (1, 4))])
def test_training_goes_on_where_it_was(home: Path, monkeypatch: pytest.MonkeyPatch, devices: int) -> None:
    del home
    monkeypatch.setenv("TORPOR_SIM_DEVICES", str(devices))
    expected = undisturbed(devices)
    assert len(expected) == STEPS
    for first, last in zip(losses(expected[0]), losses(expected[-1]), strict=True):
        assert last < first / 4  # it does learn
    job = torpor.run(paced("train.py"), name="train", gpu="sim")
    walk_on(job, 5)
    image = job.checkpoint()
    assert job.state is torpor.JobState.ASLEEP
    printed = b"".join(job.logs()).decode().splitlines()
    assert len(printed) >= 5
    woken = torpor.restore(image)
    may_end().touch()
    assert woken.wait(100)
    output = b"".join(woken.logs()).decode().splitlines()
    assert woken.exit_code == 0, output[-5:]
    assert output == undisturbed(devices, len(output))
    assert set(expected) <= set(output)
