"""A restored process that ends, in whatever way, harms nobody beside it and leaves nothing."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

import torpor
from tests.cases import rounds
from tests.conftest import eventually
from tests.flow import walking
from torpor import api
from torpor.process import tree
from torpor.records import JobState

pytestmark = pytest.mark.criu

PROGRAM = str(Path(__file__).with_name("ending.py"))


def counting(folder: Path, name: str) -> torpor.Job:
    folder.mkdir()
    job = torpor.run([sys.executable, PROGRAM, str(folder)], name=name, gpu="sim", env=rounds.ENVIRONMENT)
    walking.walk_on(job, 3)
    return job


def end(job: torpor.Job, how: str, folder: Path) -> None:
    if how in ("exit", "fault"):
        (folder / how).touch()
        return
    assert job.record.supervisor_pid is not None
    root = tree.host_pid(job.record.supervisor_pid, job.record.root or 300)
    assert root is not None
    os.kill(root, getattr(signal, how))


ENDS = {"exit": 0, "SIGTERM": -signal.SIGTERM, "SIGKILL": -signal.SIGKILL, "fault": 9}


def ended(job: torpor.Job) -> int:
    assert job.wait(100)
    code = job.exit_code
    assert code is not None
    return code


def test_each_end_on_a_fresh_restore(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Natively, and restored: the same status and words; a job beside it computes on, and memory is free again."""
    monkeypatch.setenv("TORPOR_SIM_DIR", str(home))  # the same machine for all
    beside = counting(tmp_path / "beside", "beside")
    alone = walking.processes_of(home)
    plain = {}
    for how in ENDS:
        job = counting(tmp_path / f"plain {how}", f"plain-{how.lower()}")
        end(job, how, tmp_path / f"plain {how}")
        plain[how] = ended(job), rounds.output(job)[-1]
        job.remove()
    assert plain["fault"] == (9, "CUDA_ERROR_ILLEGAL_ADDRESS")
    folder = tmp_path / "job"
    image = counting(folder, "sleeper").checkpoint(tier="dram")
    for how in ENDS:
        woken = torpor.restore(image, name=f"woken-{how.lower()}")
        walking.walk_on(woken, 3)
        end(woken, how, folder)
        found = ended(woken), rounds.output(woken)[-1]
        assert found[0] == plain[how][0]
        if how in ("exit", "fault"):
            assert found == plain[how]
            (folder / how).unlink()
        assert woken.state is (JobState.EXITED if how in ("exit", "fault") else JobState.KILLED)
        eventually(lambda: walking.processes_of(home) == alone)
        woken.remove()
        walking.walk_on(beside, 3)
        status = api.keeper_status("sim")
        assert status is not None
        assert status["ready"]
    # The device has all of its memory again but for the job beside, which can be put to sleep and woken.
    again = torpor.restore(beside.checkpoint(tier="dram"))
    walking.walk_on(again, 3)
    (tmp_path / "beside" / "exit").touch()
    assert ended(again) == 0
    assert rounds.output(again)[-1] == "left"
