"""The kinds of tests/cases that belong to the driver, on a real GPU: found alike natively and after two cycles."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import torpor
from tests.cases import rounds
from tests.gpu.conftest import output, wait_for_line

ROUNDS = 2


def command(group: str, folder: Path) -> list[str]:
    folder.mkdir()
    settings = [f"{name}={value}" for name, value in rounds.ENVIRONMENT.items()]
    return ["env", *settings, *rounds.command(group, folder, ROUNDS)]


def natively(group: str, folder: Path) -> list[str]:
    argv = command(group, folder)
    for number in range(ROUNDS):
        (folder / f"go-{number}").touch()
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert not any("Error" in line for line in done.stdout.splitlines()), done.stdout
    return done.stdout.splitlines()


@pytest.mark.parametrize("group", ["streams", "device_state", "parents"])
def test_group(start: Callable[[list[str]], torpor.Job], tmp_path: Path, group: str) -> None:
    reference = natively(group, tmp_path / "native")
    folder = tmp_path / "job"
    job = start(command(group, folder))
    wait_for_line(job, "ready")
    for number in range(ROUNDS):
        job = torpor.restore(job.checkpoint(tier="dram"))
        (folder / f"go-{number}").touch()
        wait_for_line(job, f"{number} done")
    assert job.wait(60)
    assert sorted(output(job).splitlines()) == sorted(reference)


COUNTER = str(Path(rounds.__file__).with_name("ending.py"))


def counting(start: Callable[[list[str]], torpor.Job], folder: Path) -> torpor.Job:
    folder.mkdir()
    job = start(["env", f"PYTHONPATH={rounds.ENVIRONMENT['PYTHONPATH']}", sys.executable, COUNTER, str(folder)])
    wait_for_line(job, "count 20")
    return job


def computes_on(job: torpor.Job) -> None:
    before = len(output(job).splitlines())
    end = time.monotonic() + 30
    while len(output(job).splitlines()) < before + 20:
        assert job.exit_code is None
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.full
@pytest.mark.timeout(900)
def test_a_restored_process_that_ends_harms_nobody(start: Callable[[list[str]], torpor.Job], tmp_path: Path) -> None:
    """By leaving, SIGTERM, SIGKILL and an illegal address: another job computes on, and two minutes later still does.

    For a machine that may be lost.
    """
    beside = counting(start, tmp_path / "beside")
    folder = tmp_path / "job"
    image = counting(start, folder).checkpoint(tier="dram")
    for how in ("exit", "SIGTERM", "SIGKILL", "fault"):
        woken = torpor.restore(image, name=f"woken-{how.lower()}")
        computes_on(woken)
        if how in ("exit", "fault"):
            (folder / how).touch()
        else:
            woken.kill(15 if how == "SIGTERM" else 9)
        assert woken.wait(30)
        (folder / how).unlink(missing_ok=True)
        computes_on(beside)
        subprocess.run(["nvidia-smi"], check=True, timeout=60, stdout=subprocess.DEVNULL)
        woken.remove()
    end = time.monotonic() + 130
    while time.monotonic() < end:
        computes_on(beside)
        time.sleep(5)
    subprocess.run(["nvidia-smi"], check=True, timeout=60, stdout=subprocess.DEVNULL)
    (tmp_path / "beside" / "exit").touch()
    assert beside.wait(30)
    assert beside.exit_code == 0
