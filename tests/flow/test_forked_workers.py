"""Children forked after the driver was initialised: they have its device files, and no use for them."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import torpor
import torpor.api
from tests.conftest import Cli, eventually
from tests.flow import walking
from torpor import paths
from torpor.errors import KeeperUnavailable, Refused, StepFailed
from torpor.process import tree
from torpor.records import JobState

pytestmark = pytest.mark.criu

PROGRAM = Path(__file__).with_name("forking.py")
LOOP_CONTROL = os.makedev(10, 237)
"""A device that CRIU cannot save, as it cannot save a GPU's."""


@pytest.fixture
def device_files(home: Path) -> Iterator[str]:
    """A device and a file that can be mapped, under names of a GPU's."""
    device, mapped = (Path(f"/dev/nvidia-{home.name}-{kind}") for kind in ("device", "mapped"))
    os.mknod(device, stat.S_IFCHR | 0o600, LOOP_CONTROL)
    mapped.write_bytes(bytes(4096))
    yield f"{device}:{mapped}"
    device.unlink()
    mapped.unlink()


Start = Callable[..., torpor.Job]


@pytest.fixture
def command(home: Path) -> Cli:
    """The command line; its usual name here is the package's."""
    del home
    return Cli()


@pytest.fixture
def start(device_files: str) -> Start:
    """Starts the program with these arguments, and waits until its children are there."""

    def begin(*arguments: str) -> torpor.Job:
        env = {"TORPOR_SIM_DEVICE_FILES": device_files, "TORPOR_SIM_DIR": str(paths.home())}
        job = torpor.run([sys.executable, str(PROGRAM), *arguments], name="forking", gpu="sim", env=env)
        eventually(lambda: "ready" in walking.output(job) or job.state is not JobState.RUNNING)
        assert job.state is JobState.RUNNING, walking.output(job)
        return job

    return begin


def holders(job: torpor.Job) -> list[int]:
    """Pids, as the job sees them, of its processes that have GPU device files."""
    record = torpor.job(job.name).record
    assert record.supervisor_pid is not None
    return [one.inner for one in tree.read(record.supervisor_pid, 300).processes if one.uses_gpu]


EXPECTED = ["CUDA_ERROR_NOT_INITIALIZED", "numbers as before: True", "parent: 7", "work: WORK"]


def finish(job: torpor.Job, go: Path) -> list[str]:
    go.touch()
    return walking.finish(job)


@pytest.mark.parametrize("way", ["fork", "clone"])
def test_they_come_back_and_work(start: Start, tmp_path: Path, way: str) -> None:
    job = start(way, str(tmp_path / "go"))
    assert len(holders(job)) == 5
    image = job.checkpoint()
    image.verify()
    woken = torpor.restore(image)
    assert holders(woken) == [300]
    assert finish(woken, tmp_path / "go") == sorted(["ready", *EXPECTED])


def test_beside_an_image_they_work_on(start: Start, tmp_path: Path) -> None:
    job = start("fork", str(tmp_path / "go"))
    for _turn in range(2):
        job.checkpoint(leave_running=True)
        assert holders(job) == [300]
    assert finish(job, tmp_path / "go") == sorted(["ready", *EXPECTED])


def test_suspended_and_then_saved(start: Start, tmp_path: Path) -> None:
    job = start("fork", str(tmp_path / "go"))
    job.suspend(tier="hbm")
    assert holders(job) == []
    image = job.checkpoint(leave_running=True)
    job.resume()
    assert finish(job, tmp_path / "go") == sorted(["ready", *EXPECTED])
    assert finish(torpor.restore(image), tmp_path / "go") == sorted(["ready", *EXPECTED])


def test_one_that_opened_a_device_itself_is_refused(start: Start, tmp_path: Path) -> None:
    job = start("opens", str(tmp_path / "go"))
    with pytest.raises(Refused, match="has GPU devices open but does not use CUDA") as caught:
        job.checkpoint()
    assert caught.value.details["process"] == holders(job)[-1]
    assert len(holders(job)) == 5  # nobody has been touched
    assert finish(job, tmp_path / "go") == sorted(["ready", *EXPECTED])


def test_of_a_process_that_torpor_did_not_start(device_files: str, tmp_path: Path) -> None:
    """Nobody in it can be asked, and the driver is asked for the parent alone."""
    library = paths.software_gpu()
    assert library is not None
    env = {"TORPOR_SIM_DEVICE_FILES": device_files, "LD_LIBRARY_PATH": str(library.parent)}
    argv = [sys.executable, str(PROGRAM), "fork", str(tmp_path / "go")]
    with (tmp_path / "out").open("w") as out:
        process = subprocess.Popen(argv, env={**os.environ, **env}, stdout=out, start_new_session=True)
    eventually(lambda: "ready" in (tmp_path / "out").read_text())
    image = torpor.api.checkpoint_process(process.pid, name="adopted")
    process.wait()
    assert [one.pid for one in image.manifest.processes] == [process.pid]
    woken = torpor.restore(image)
    (tmp_path / "go").touch()
    assert woken.wait(100)
    assert sorted((tmp_path / "out").read_text().splitlines()) == sorted(["ready", *EXPECTED])


def test_one_that_is_forked_during_the_checkpoint(start: Start, command: Cli, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    command("keeper", "start", env={"TORPOR_FAULT": f"driver lock=hang:{gate}"})
    job = start("late", str(tmp_path / "go"))
    assert len(holders(job)) == 4
    with command.start("checkpoint", "--leave-running", "forking") as asking:
        eventually(Path(f"{gate}.reached").exists)
        (tmp_path / "late").touch()
        eventually(lambda: "forked" in walking.output(job))
        assert len(holders(job)) == 2
        gate.touch()
        _out, err = asking.communicate(timeout=100)
        assert asking.returncode == 0, err
    assert holders(job) == [300]
    assert finish(job, tmp_path / "go") == sorted(["ready", "forked", *EXPECTED])
    assert finish(torpor.restore("forking-1"), tmp_path / "go") == sorted(["ready", "forked", *EXPECTED])


@pytest.mark.parametrize(
    "fault",
    [
        *("relieve:end=fail:5", "relieve=kill"),
        *(pytest.param(one, marks=pytest.mark.full) for one in ("relieve=fail:5", "relieve:end=kill")),
    ],
)
def test_a_failure_there_leaves_the_job_at_work(start: Start, command: Cli, tmp_path: Path, fault: str) -> None:
    command("keeper", "start", env={"TORPOR_FAULT": fault})
    job = start("fork", str(tmp_path / "go"))
    with pytest.raises((StepFailed, KeeperUnavailable)):
        job.checkpoint()
    eventually(lambda: job.state is JobState.RUNNING)
    image = job.checkpoint(leave_running=True)
    assert finish(job, tmp_path / "go") == sorted(["ready", *EXPECTED])
    assert finish(torpor.restore(image), tmp_path / "go") == sorted(["ready", *EXPECTED])
