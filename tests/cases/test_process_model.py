"""Children of every kind, early questions, late starters, and those that go past Torpor's library."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest

import torpor
from tests.cases import rounds
from tests.conftest import PATIENCE, end_family, eventually, start_keeper
from tests.flow.test_suspended_images import LATE as ONE_LATER
from torpor import api, paths
from torpor.errors import Refused, StepFailed
from torpor.records import JobState

pytestmark = pytest.mark.criu

LATE = Path(__file__).with_name("late.py")


def test_group(home: Path, tmp_path: Path) -> None:
    del home
    reference = rounds.native("parents", tmp_path / "native", 2)
    assert rounds.cycled("parents", tmp_path / "job", 2) == reference


def late(count: int, folder: Path) -> torpor.Job:
    argv = [sys.executable, str(LATE), str(count), str(folder)]
    job = torpor.run(argv, name="late", gpu="sim", env=rounds.ENVIRONMENT)
    eventually(lambda: "ready" in rounds.output(job) or job.state is not JobState.RUNNING)
    return job


def test_a_question_before_the_driver_is_initialised(home: Path, tmp_path: Path) -> None:
    """The parent is a host-only process, and stays one; its children can use the driver."""
    del home
    job = late(0, tmp_path)
    image = job.checkpoint()
    assert image.manifest.processes == []
    woken = torpor.restore(image)
    (tmp_path / "go").touch()
    assert woken.wait(100)
    assert rounds.output(woken) == ["CUDA_ERROR_NOT_INITIALIZED", "ready", "[]"]


@pytest.mark.parametrize("count", [12, pytest.param(50, marks=pytest.mark.full)])
def test_children_that_start_during_checkpoints(home: Path, tmp_path: Path, count: int) -> None:
    del home
    job = late(count, tmp_path)
    images, failures = [], []
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            images.append(job.checkpoint(tier="dram", leave_running=True))
        except (StepFailed, Refused) as error:
            failures.append(error)
        if images and len(images[-1].manifest.processes) == count:
            break
        if len(images) > 1:
            images.pop(0).remove()
    assert [error.message for error in failures if "try again" not in (error.hint or "")] == []
    assert len(images[-1].manifest.processes) == count
    assert job.state is JobState.RUNNING
    (tmp_path / "go").touch()
    assert job.wait(100)
    assert rounds.output(job)[-1] == "[0]"
    woken = torpor.restore(images[-1], name="woken")
    assert woken.wait(100)
    assert rounds.output(woken)[-1] == "[0]"


@contextmanager
def stranger(argv: list[str], out: Path) -> Iterator[int]:
    """The pid of a program that Torpor did not start."""
    library = paths.software_gpu()
    assert library is not None
    env = {**os.environ, "LD_LIBRARY_PATH": str(library.parent)}
    with out.open("wb") as file:
        process = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=file, start_new_session=True)
    try:
        yield process.pid
    finally:
        end_family(process)


@pytest.mark.parametrize("ours", [True, False], ids=["job", "stranger"])
def test_one_that_begins_during_a_checkpoint_is_named(home: Path, tmp_path: Path, ours: bool) -> None:
    """Nobody has locked it, so its state would be missing. The job runs on, and the next image has both."""
    go, gate, out = tmp_path / "go", tmp_path / "gate", tmp_path / "out"
    argv = [sys.executable, "-c", ONE_LATER, str(go)]
    start_keeper(home, {"TORPOR_SIM_FAULT": f"cuCheckpointProcessLock@1=hang:{gate}"})
    with ExitStack() as stack:
        if ours:
            take = partial(torpor.run(argv, name="late", gpu="sim").checkpoint, leave_running=True)
            out = paths.job_log("late")
        else:
            pid = stack.enter_context(stranger(argv, out))
            take = partial(api.checkpoint_process, pid, leave_running=True)
        eventually(lambda: out.read_text() == "here\n")
        asking = stack.enter_context(ThreadPoolExecutor())
        stack.callback(gate.touch)
        asked = asking.submit(take)
        eventually(lambda: [one.state for one in api.jobs()] == [JobState.CHECKPOINTING])
        go.touch()
        eventually(lambda: "CUDA_SUCCESS" in out.read_text())
        gate.touch()
        with pytest.raises(StepFailed, match="began to use the GPU during the checkpoint") as caught:
            asked.result(PATIENCE)
        assert caught.value.hint == "try again"
        assert len(take().manifest.processes) == 2


def test_one_that_goes_past_us(home: Path, tmp_path: Path) -> None:
    """A child without LD_PRELOAD uses the driver by itself."""
    del home
    child = "from tests.cases.streams import *; context(); print('ready', flush=True); sys.stdin.read()"
    program = (
        "import os, subprocess, sys\n"
        "env = {k: v for k, v in os.environ.items() if k != 'LD_PRELOAD'}\n"
        "env['LD_LIBRARY_PATH'] = os.path.dirname(os.environ['TORPOR_REAL_LIBCUDA'])\n"
        f"p = subprocess.Popen([sys.executable, '-c', {'import sys; ' + child!r}], env=env, stdin=subprocess.PIPE)\n"
        f"import time\nwhile not os.path.exists({str(tmp_path / 'go')!r}): time.sleep(0.01)\n"
        "p.communicate(b''); print(p.returncode)\n"
    )
    job = torpor.run([sys.executable, "-c", program], name="past", gpu="sim", env=rounds.ENVIRONMENT)
    eventually(lambda: "ready" in rounds.output(job))
    with pytest.raises(Refused, match="not fully intercepted") as caught:
        job.checkpoint()
    assert caught.value.details["process"] == 301
    (tmp_path / "go").touch()
    assert job.wait(100)
    assert rounds.output(job) == ["ready", "0"]
