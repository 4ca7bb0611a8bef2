"""Processes that share events: none waits for one who was put away, and a tool that dies leaves both at work."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import torpor
from tests.cases import rounds
from tests.conftest import Cli, eventually, keeper_of
from tests.flow.walking import command, finish, reference, walk_on
from torpor import api, paths
from torpor.errors import Refused
from torpor.process import tree
from torpor.records import JobState

pytestmark = pytest.mark.criu

PROGRAM = str(Path(__file__).with_name("peers.py"))
SECONDS = 60.0


def started(role: str, folder: Path, *ready: str, arena: bool = True) -> torpor.Job:
    argv = [sys.executable, PROGRAM, role, str(folder)]
    job = torpor.run(argv, name=role, gpu="sim", env=rounds.ENVIRONMENT, arena=arena)
    eventually(lambda: set(rounds.output(job)) >= set(ready) or job.state is not JobState.RUNNING)
    return job


def refused_soon(job: torpor.Job, match: str) -> None:
    for verb in (job.checkpoint, job.suspend):
        began = time.monotonic()
        with pytest.raises(Refused, match=match) as caught:
            verb()
        assert time.monotonic() - began < SECONDS
        assert caught.value.hint
    assert job.state is JobState.RUNNING


def test_two_who_wait_for_each_other(home: Path, tmp_path: Path) -> None:
    """Put away and brought back while each has the other's event open and waits for it all the time."""
    del home
    job = started("both", tmp_path, "both ready", "child ready")
    job.suspend()
    job.resume()
    image = job.checkpoint(tier="dram")
    assert len(image.manifest.processes) == 2
    woken = torpor.restore(image)
    (tmp_path / "close").touch()
    eventually(lambda: {"both closed", "child closed"} <= set(rounds.output(woken)))
    woken = torpor.restore(woken.checkpoint(tier="dram"))
    (tmp_path / "go").touch()
    assert woken.wait(100)
    assert woken.exit_code == 0
    assert {"both good", "child good"} <= set(rounds.output(woken))


@pytest.fixture
def guest(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process of the host that waits for the owner's event."""
    library = paths.software_gpu()
    assert library is not None
    process = subprocess.Popen(
        [sys.executable, PROGRAM, "guest", str(tmp_path)],
        env={**os.environ, **rounds.ENVIRONMENT, "LD_LIBRARY_PATH": str(library.parent)},
        stdout=subprocess.PIPE,
        text=True,
    )
    yield process
    process.kill()
    process.communicate()


def test_one_whose_event_somebody_outside_waits_for(home: Path, tmp_path: Path, guest: subprocess.Popen[str]) -> None:
    """Possible where such events are the driver's."""
    del home
    job = started("owner", tmp_path, "owner ready", arena=False)
    assert guest.stdout is not None
    assert guest.stdout.readline() == "guest ready\n"
    refused_soon(job, "the IPC handle of an event")
    (tmp_path / "go").touch()
    assert job.wait(100)
    assert rounds.output(job)[-1] == "owner good"
    assert guest.communicate(timeout=100)[0] == "guest good\n"


def test_nobody_outside_can_open_the_event_of_a_job(home: Path, tmp_path: Path, guest: subprocess.Popen[str]) -> None:
    del home
    job = started("owner", tmp_path, "owner ready")
    assert guest.wait(60) != 0
    woken = torpor.restore(job.checkpoint(tier="dram"))
    (tmp_path / "go").touch()
    assert woken.wait(100)
    assert rounds.output(woken)[-1] == "owner good"


@pytest.mark.parametrize("call", ["Lock", pytest.param("Checkpoint", marks=pytest.mark.full)])
def test_a_tool_that_is_killed_between_two(home: Path, tmp_path: Path, call: str) -> None:
    """The first process is locked (or put away), the second is not yet, and the keeper dies: both work on."""
    undisturbed = reference("--workers", "1")
    gate = tmp_path / "gate"
    Cli()("keeper", "start", env={"TORPOR_SIM_FAULT": f"cuCheckpointProcess{call}@2=hang:{gate}"})
    job = torpor.run(command("--workers", "1"), name="walk", gpu="sim")
    walk_on(job, 3)
    keeper = keeper_of(home)
    with Cli().start("checkpoint", "walk") as asking:
        wanted = {"Lock": "CU_PROCESS_STATE_LOCKED", "Checkpoint": "CU_PROCESS_STATE_CHECKPOINTED"}[call]
        try:
            eventually(lambda: job.state is JobState.CHECKPOINTING and wanted in states(job))
        finally:
            os.kill(keeper, signal.SIGKILL)
            gate.touch()
            asking.communicate(timeout=100)
    api.recover()
    eventually(lambda: job.state is JobState.RUNNING)
    walk_on(job, 3)
    assert finish(torpor.restore(job.checkpoint(tier="dram"))) == undisturbed


def states(job: torpor.Job) -> list[str]:
    """What the driver says of the job's processes, asked from outside."""
    code = (
        "import sys\nfrom cuda.bindings import driver\ndriver.cuInit(0)\n"
        "for pid in sys.argv[1:]: print(driver.cuCheckpointProcessGetState(int(pid))[1].name)\n"
    )
    assert job.record.supervisor_pid is not None
    pids = [str(one.pid) for one in tree.read(job.record.supervisor_pid, 300).processes]
    library = paths.software_gpu()
    assert library is not None
    env = {**os.environ, "LD_LIBRARY_PATH": str(library.parent)}
    done = subprocess.run([sys.executable, "-c", code, *pids], env=env, capture_output=True, text=True, check=True)
    return done.stdout.split()
