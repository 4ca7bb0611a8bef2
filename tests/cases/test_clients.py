"""A command line that is killed at any moment holds nobody up: the next one proceeds at once."""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY, Cli, eventually
from torpor import api, records
from torpor.errors import TorporError
from torpor.process.client import SupervisorClient
from torpor.records import JobState

COUNT = REPOSITORY / "examples" / "count.py"


def seconds(torpor: Cli, *words: str) -> float:
    began = time.monotonic()
    torpor(*words)
    return time.monotonic() - began


def forget_starts(home: Path) -> None:
    """Starts that came to nothing count as such after a minute; let it have passed."""
    for job in api.jobs():
        if job.state is JobState.STARTING:
            with contextlib.suppress(TorporError), SupervisorClient(home / "jobs" / job.name) as supervisor:
                supervisor.shutdown()
            record = job.record
            record.created -= 60
            records.save(record)
            assert job.state is not JobState.STARTING


@pytest.mark.criu
@pytest.mark.parametrize(
    "fraction", [0.5, *(pytest.param(one, marks=pytest.mark.full) for one in (0.1, 0.3, 0.6, 0.7, 0.8, 0.9, 1.2))]
)
def test_the_next_one_proceeds(torpor: Cli, home: Path, fraction: float) -> None:
    """Killed while it starts a keeper, claims a name, starts a job, asks for a checkpoint and waits for it."""
    job = ("run", "-d", "--gpu", "sim", "--", sys.executable, str(COUNT), "--mib", "4", "--delay", "0.01")
    usual = {"start": seconds(torpor, "keeper", "start"), "run": seconds(torpor, *job)}
    [first] = api.jobs()
    eventually(lambda: b"count 2\n" in b"".join(first.logs()))
    usual["checkpoint"] = seconds(torpor, "checkpoint", first.name, "--leave-running")
    usual["ps"] = seconds(torpor, "ps")
    torpor("keeper", "stop")
    for what, words in {
        "start": ("keeper", "start"),
        "run": job,
        "checkpoint": ("checkpoint", first.name, "--leave-running"),
    }.items():
        with torpor.start(*words) as killed:
            time.sleep(usual[what] * fraction)
            killed.kill()
        # What the dead one had begun counts as its own for a minute. Nobody waits for that.
        took = seconds(torpor, "ps")
        assert took < 20 + 5 * max(usual["ps"], usual["checkpoint"]), what
    forget_starts(home)
    eventually(lambda: first.state is JobState.RUNNING)
    eventually(lambda: not (api.keeper_status("sim") or {}).get("busy"))
    torpor("checkpoint", first.name, "--leave-running")
    torpor(*job)
    assert [one.state for one in api.jobs()].count(JobState.RUNNING) >= 2
