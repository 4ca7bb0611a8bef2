"""A suspended job goes into an image as a running one does, and stays suspended where that is asked for."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import pytest

import torpor
from tests.conftest import REPOSITORY, Cli, end_everything, eventually, keeper_of, start_keeper
from tests.flow import walking
from tests.flow.walking import Reference, command, finish, output, reference, walk_on
from torpor import api, errors, paths
from torpor.image.manifest import SEGMENT
from torpor.keeper import jobs
from torpor.keeper.client import KeeperClient
from torpor.process import tree
from torpor.records import JobState

pytestmark = pytest.mark.criu


@pytest.fixture(scope="module")
def undisturbed() -> Reference:
    return reference("--workers", "1")


def suspended(tier: str) -> torpor.Job:
    """A job of two CUDA processes that walk, suspended after some steps."""
    job = torpor.run(command("--workers", "1"), name="walk", gpu="sim")
    eventually(lambda: {"root 5", "worker0 5"} <= {" ".join(line.split()[:2]) for line in output(job)})
    job.suspend(tier=tier)
    return job


@pytest.mark.parametrize(
    ("tier", "rests"),
    [
        ("disk", "dram"),
        ("dram", "hbm"),
        pytest.param("disk", "hbm", marks=pytest.mark.full),
        pytest.param("dram", "dram", marks=pytest.mark.full),
    ],
)
def test_the_image_wakes_and_the_suspended_job_is_gone(
    home: Path, undisturbed: Reference, rests: str, tier: str
) -> None:
    job = suspended(rests)
    standing = output(job)
    image = job.checkpoint(tier=tier)
    assert job.state is JobState.ASLEEP
    assert image.manifest.tier == tier
    assert image.manifest.gpu_bytes > 20 << 20
    eventually(lambda: not walking.processes_of(home))
    assert not list((paths.dram_dir() / ".jobs").glob("*/*"))
    image.verify()
    woken = api.restore(image)
    assert set(standing) <= set(output(woken))
    assert finish(woken) == undisturbed


@pytest.mark.parametrize(
    ("tier", "rests"),
    [
        ("disk", "hbm"),
        ("dram", "dram"),
        pytest.param("disk", "dram", marks=pytest.mark.full),
        pytest.param("dram", "hbm", marks=pytest.mark.full),
    ],
)
def test_it_stays_suspended_and_both_lives_go_on(undisturbed: Reference, home: Path, rests: str, tier: str) -> None:
    del home
    job = suspended(rests)
    standing = output(job)
    image = job.checkpoint(tier=tier, leave_running=True)
    assert job.describe_state() == f"suspended ({rests})"
    again = job.checkpoint(tier=tier, leave_running=True)
    # Each of the two processes may print the line that it was at when its calls stopped, and no more.
    assert set(standing) <= set(output(job))
    assert len(output(job)) <= len(standing) + 2
    job.resume()
    assert finish(job) == undisturbed
    for one in (image, again):
        one.verify()
        assert finish(api.restore(one)) == undisturbed


def test_bytes_in_memory_are_shared_with_the_image_and_not_copied(home: Path) -> None:
    del home
    program = [sys.executable, str(REPOSITORY / "examples" / "count.py"), "--mib", "150", "--delay", "0.02"]
    job = api.run(program, name="count", gpu="sim")
    eventually(lambda: b"count 3\n" in b"".join(job.logs()))
    job.suspend(tier="dram")
    (place,) = (paths.dram_dir() / ".jobs").glob("*/count")
    rests = {file.stat().st_ino for file in place.glob("gpu/*.seg")}
    image = job.checkpoint(tier="dram", leave_running=True)
    assert len(rests) == 3
    assert {file.stat().st_ino for file in image.path.glob("gpu/*.seg")} == rests
    # Resuming must not give the pool what the image has, nor removing an image what the job has.
    job.resume()
    assert KeeperClient("sim").call("status")["pool"]["kept"] == 3 * SEGMENT
    image.verify()
    job.suspend(tier="dram")
    other = job.checkpoint(tier="dram", leave_running=True)
    other.remove()
    job.resume()
    walk_on(job, 5)
    walk_on(api.restore(image), 5)


def test_on_a_disk_no_byte_behind_the_last_block_is_written(home: Path) -> None:
    del home
    job = suspended("dram")
    image = job.checkpoint()
    manifest = image.manifest
    assert sum(entry.size for entry in manifest.segments()) == manifest.gpu_bytes
    assert all(entry.hash for entry in manifest.segments())


def test_a_failure_leaves_it_suspended(undisturbed: Reference, torpor: Cli, home: Path) -> None:
    torpor("keeper", "start", env={"TORPOR_FAULT": "commit@1=fail:28"})
    job = suspended("dram")
    before = walking.traces(home)
    with pytest.raises(errors.NoSpace):
        job.checkpoint(tier="dram")
    assert walking.traces(home) == before
    assert job.describe_state() == "suspended (dram)"
    assert torpor.json("checkpoint", "walk", "--leave-running")["leave_running"]
    job.resume()
    assert finish(job) == undisturbed


@pytest.mark.parametrize("rests", ["hbm", "dram"])
def test_the_keeper_dies_before_the_commit(undisturbed: Reference, torpor: Cli, home: Path, rests: str) -> None:
    gate = home / "gate"
    torpor("keeper", "start", env={"TORPOR_FAULT": f"wait for copy@{2 if rests == 'dram' else 1}=hang:{gate}"})
    job = suspended(rests)
    with torpor.start("checkpoint", "walk") as asking:
        eventually(Path(f"{gate}.reached").exists)
        assert job.state is JobState.SUSPENDED
        os.kill(keeper_of(home), signal.SIGKILL)
        assert asking.wait(100) == errors.KeeperUnavailable.code
    # The next keeper starts by itself.
    eventually(lambda: api.job("walk").record.unfinished is None)
    assert job.describe_state() == f"suspended ({rests})"
    assert list((home / "images").iterdir()) == []
    image = job.checkpoint()
    assert finish(api.restore(image)) == undisturbed


LATE = """
import os, subprocess, sys, time
from cuda.bindings import driver

driver.cuInit(0)
late = "import time; from cuda.bindings import driver; print(driver.cuInit(0), flush=True); time.sleep(600)"
print("here", flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
subprocess.run([sys.executable, "-c", late])
"""


def test_a_process_that_begins_to_use_the_gpu_meanwhile_is_named(home: Path) -> None:
    job = api.run([sys.executable, "-c", LATE, str(home / "go")], name="late", gpu="sim")
    eventually(lambda: b"here" in b"".join(job.logs()))
    job.suspend(tier="hbm")
    (home / "go").touch()
    eventually(lambda: b"CUDA_SUCCESS" in b"".join(job.logs()))
    with pytest.raises(errors.WrongState, match="began to use the GPU") as raised:
        job.checkpoint()
    assert "resume" in str(raised.value.hint)
    job.resume()
    job.checkpoint(leave_running=True)


@pytest.mark.parametrize("rests", ["hbm", "dram"])
def test_it_is_resumed_whatever_became_of_its_processes_and_the_keeper(torpor: Cli, home: Path, rests: str) -> None:
    """One has left the tree, and the keeper may look neither at the root nor at the supervisor. No image can be made of
    such a job, but it does not stand still for that."""
    poor = ("setpriv", "--bounding-set", "-sys_ptrace")
    parent = f"{shlex.join([*poor, *command()])} & echo parent $$; wait"
    job = api.run(["sh", "-c", f"sh -c {shlex.quote(parent)} & sleep 1000; true"], name="walk", gpu="sim")
    walk_on(job, 5)
    job.suspend(tier=rests)
    (parent,) = (line.split()[1] for line in output(job) if line.startswith("parent"))
    opened = jobs.open_tree(job.record)
    os.kill(next(one.pid for one in opened.tree if one.inner == int(parent)), signal.SIGKILL)
    eventually(lambda: tree.read(job.record.supervisor_pid or 0, opened.root).strays)
    start_keeper(home, prefix=poor)
    told = torpor("checkpoint", "walk", check=errors.NoRights.code).stderr.decode()
    assert "may not be looked at" in told
    job.resume()
    walk_on(job, 5)


def test_two_homes_may_have_suspended_jobs_of_one_name(
    undisturbed: Reference, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = suspended("dram")
    other_home = Path(tempfile.mkdtemp(prefix="tp-", dir="/tmp"))
    with monkeypatch.context() as patch:
        patch.setenv("TORPOR_HOME", str(other_home))
        other = suspended("dram")
        # This keeper looks for what nobody has any more, and must let the first home's be.
        assert len(list((paths.dram_dir() / ".jobs").glob("*/walk"))) == 2
        image = other.checkpoint(tier="dram", leave_running=True)
        other.kill(9)
        other.wait(100)
        other.remove()  # with its second process, which stands still
        eventually(lambda: len(list((paths.dram_dir() / ".jobs").glob("*/walk"))) == 1)
        assert finish(api.restore(image)) == undisturbed
        end_everything(other_home)
    one.resume()
    assert finish(one) == undisturbed
    shutil.rmtree(other_home)
    assert home.exists()
