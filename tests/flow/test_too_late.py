"""Ctrl-C and SIGTERM at the edges of a verb: what it says, how it ends and what is so agree at every moment."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import PATIENCE, Cli, eventually, start_keeper
from torpor import api
from torpor.errors import Cancelled
from torpor.records import JobState

pytestmark = pytest.mark.criu

BOTH = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["INT", "TERM"])

MOMENTS = {
    "told": "real, output.result = output.result, lambda *told: (come(), real(*told))",
    "ended": "atexit.register(come)",
    "returned": "real, api.restore = api.restore, lambda *a, **more: (real(*a, **more), come())[0]",
}
"""When the keeper has said that the verb is done: before the command says so; as its process ends; before it attends
to the job."""

COMMAND = """
import atexit, os, signal, sys
from torpor import api
from torpor.__main__ import main
from torpor.cli import output
def come():
    for _ in range(3):
        os.kill(os.getpid(), {number})
{moment}
sys.argv = ["torpor", *{verb}]
main()
"""


def interrupted(moment: str, number: int, *verb: str) -> subprocess.CompletedProcess[bytes]:
    code = COMMAND.format(moment=MOMENTS[moment], number=int(number), verb=verb)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=PATIENCE, check=False)


@BOTH
@pytest.mark.parametrize("moment", ["told", "ended"])
def test_one_that_comes_too_late_changes_nothing(torpor: Cli, moment: str, number: signal.Signals) -> None:
    torpor("run", "-d", "--name", "job", "--", "sleep", "1000")
    for verb, state in (
        (("checkpoint", "job"), JobState.ASLEEP),
        (("restore", "job-1"), JobState.RUNNING),
        (("suspend", "job"), JobState.SUSPENDED),
        (("resume", "job"), JobState.RUNNING),
    ):
        done = interrupted(moment, number, *verb)
        assert (done.returncode, b"cancel" in done.stderr, b"Traceback" in done.stderr) == (0, False, False), verb
        assert verb[1].encode() in done.stdout
        assert api.job("job").state is state


@BOTH
def test_nor_of_a_job_that_runs_by_then(torpor: Cli, number: signal.Signals) -> None:
    del torpor
    done = interrupted("told", number, "run", "-d", "--name", "job", "--", "sleep", "1000")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"job\n", b"")
    assert api.job("job").state is JobState.RUNNING


@BOTH
def test_one_before_a_woken_job_is_attended_to_is_the_jobs(torpor: Cli, number: signal.Signals) -> None:
    torpor("run", "-d", "--name", "job", "--", "sleep", "1000")
    torpor("checkpoint", "job")
    assert interrupted("returned", number, "restore", "--attach", "job-1").returncode == -number
    assert api.job("job").state is JobState.KILLED


@pytest.mark.parametrize("verb", ["checkpoint", "restore", "suspend", "resume"])
def test_sigterm_cancels(torpor: Cli, home: Path, tmp_path: Path, verb: str) -> None:
    given, before = ("job",), JobState.RUNNING
    torpor("run", "-d", "--name", "job", "--", "sleep", "1000")
    if verb == "restore":
        torpor("checkpoint", "job")
        given, before = ("job-1",), JobState.ASLEEP
    if verb == "resume":
        torpor("suspend", "job")
        before = JobState.SUSPENDED
    torpor("keeper", "stop")
    go_on = tmp_path / "go-on"
    step = {"checkpoint": "freeze", "restore": "criu restore", "suspend": "freeze", "resume": "find processes"}[verb]
    start_keeper(home, {"TORPOR_FAULT": f"{step}=hang:{go_on}"})
    with torpor.start(verb, *given) as asking:
        assert asking.stderr is not None
        eventually(Path(f"{go_on}.reached").exists)
        asking.send_signal(signal.SIGTERM)
        assert any(b"cancelling" in line for line in asking.stderr)
        go_on.touch()
        _told, why = asking.communicate(timeout=PATIENCE)
    assert asking.returncode == Cancelled.code, why
    assert b"rolled back" in why
    assert api.job("job").state is before


def test_sigterm_ends_what_cannot_be_cancelled(torpor: Cli) -> None:
    torpor("run", "-d", "--name", "job", "--", "sh", "-c", "echo here; sleep 1000")
    with torpor.start("logs", "-f", "job") as asking:
        assert asking.stdout is not None
        assert asking.stdout.readline() == b"here\n"
        asking.send_signal(signal.SIGTERM)
        assert b"Traceback" not in asking.communicate(timeout=PATIENCE)[1]
    assert asking.returncode == -signal.SIGTERM
