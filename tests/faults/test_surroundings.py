"""What the host does to a job or a keeper: no memory on the GPU, small and frozen cgroups, rights that are missing."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY, Cli, eventually, start_keeper, stop_keepers
from tests.flow import walking
from torpor import api, errors, paths
from torpor.process import tree
from torpor.process.probe import NEEDED_TO_RESTORE

pytestmark = pytest.mark.criu

COUNT = REPOSITORY / "examples" / "count.py"
SECONDS = 20.0


def counting(name: str, mib: int, **options: object) -> api.Job:
    argv = [sys.executable, str(COUNT), "--mib", str(mib), "--delay", "0.005"]
    job = api.run(argv, name=name, gpu="sim", **options)  # type: ignore[arg-type]
    eventually(lambda: b"count 3\n" in b"".join(job.logs()))
    return job


@pytest.mark.parametrize("tier", ["disk", "dram"])
def test_a_restore_without_room_on_the_gpu_works_later(home: Path, monkeypatch: pytest.MonkeyPatch, tier: str) -> None:
    monkeypatch.setenv("TORPOR_SIM_MEMORY", "96M")
    monkeypatch.setenv("TORPOR_SIM_DIR", str(home))
    job = counting("count", 48)
    image = job.checkpoint(tier=tier)
    hog = counting("hog", 64)
    for _ in range(2):
        with pytest.raises(errors.NoSpace, match="MiB free") as caught:
            api.restore(image)
        assert caught.value.details["needed"] > caught.value.details["free"]
        walking.walk_on(hog, 2)
    hog.kill(9)
    assert hog.wait(100)
    woken = api.restore(image)
    # More ticks than the trail has pages: every page has been read again since.
    walking.walk_on(woken, 60)


def test_a_resume_without_room_on_the_gpu_works_later(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORPOR_SIM_MEMORY", "96M")
    monkeypatch.setenv("TORPOR_SIM_DIR", str(home))
    job = counting("count", 48)
    job.suspend(tier="dram")
    hog = counting("hog", 64)
    for _ in range(2):
        with pytest.raises(errors.NoSpace, match="MiB free"):
            job.resume()
        assert job.state is api.job("count").state
        assert str(job.state) == "suspended"
    hog.kill(9)
    assert hog.wait(100)
    job.resume()
    walking.walk_on(job, 60)


class Group:
    """A cgroup of version 1 of one controller."""

    def __init__(self, controller: str) -> None:
        self.path = Path(f"/sys/fs/cgroup/{controller}/torpor-test")
        self.path.mkdir()

    def take(self, pid: int) -> None:
        (self.path / "cgroup.procs").write_text(str(pid))

    def close(self) -> None:
        for pid in (self.path / "cgroup.procs").read_text().split():
            (self.path.parent / "cgroup.procs").write_text(pid)
        self.path.rmdir()


@pytest.fixture
def frozen() -> Iterator[Group]:
    group = Group("freezer")
    yield group
    (group.path / "freezer.state").write_text("THAWED")
    group.close()


@pytest.mark.full
@pytest.mark.parametrize("verb", ["checkpoint", "suspend"])
def test_a_job_in_a_frozen_cgroup_is_refused_soon(home: Path, frozen: Group, verb: str) -> None:
    del home
    job = counting("count", 8)
    supervisor = job.record.supervisor_pid
    assert supervisor is not None
    root = tree.host_pid(supervisor, 300)
    assert root is not None
    frozen.take(root)
    (frozen.path / "freezer.state").write_text("FROZEN")
    eventually(lambda: (frozen.path / "freezer.state").read_text() == "FROZEN\n")
    begun = time.monotonic()
    with pytest.raises(errors.WrongState, match="frozen by the cgroup"):
        getattr(job, verb)()
    assert time.monotonic() - begun < SECONDS
    (frozen.path / "freezer.state").write_text("THAWED")
    walking.walk_on(job)
    getattr(job, verb)()


@pytest.fixture
def small() -> Iterator[Group]:
    group = Group("memory")
    (group.path / "memory.limit_in_bytes").write_text(str(600 << 20))
    yield group
    group.close()


@pytest.mark.full
def test_a_keeper_with_little_memory_streams(
    torpor: Cli, home: Path, small: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1 GiB of device memory through a keeper whose cgroup has 600 MiB: nobody is killed for it."""
    monkeypatch.setenv("TORPOR_POOL_MAX", "192M")
    monkeypatch.setenv("TORPOR_SIM_DIR", str(home))
    # The software GPU's memory counts for whoever touches it first: that is to be the job.
    argv = [sys.executable, str(COUNT), "--mib", "1024", "--delay", "0"]
    job = api.run(argv, name="count", gpu="sim")
    eventually(lambda: b"count 1030\n" in b"".join(job.logs()))
    torpor("keeper", "start")
    small.take(int(api.keeper_status("sim")["pid"]))  # type: ignore[index]
    image = job.checkpoint()
    assert image.manifest.gpu_bytes > 1 << 30
    api.keeper_stop("sim")
    job = api.restore(image)
    walking.walk_on(job)
    killed = (small.path / "memory.oom_control").read_text()
    assert "oom_kill 0" in killed


@pytest.mark.parametrize("name", sorted(NEEDED_TO_RESTORE - {"CAP_SYS_ADMIN"}))
def test_a_missing_capability_is_named(torpor: Cli, home: Path, name: str) -> None:
    job = counting("count", 4)
    image = job.checkpoint()
    api.keeper_stop("sim")
    eventually(lambda: not walking.processes_of(home))
    before = walking.traces(home)
    start_keeper(home, prefix=("setpriv", "--bounding-set", f"-{name.removeprefix('CAP_').lower()}"))
    told = json.loads(torpor("restore", "--json", image.name, check=errors.NoRights.code).stdout)["error"]
    assert name in told["message"]
    assert told["details"]["missing"] == [name]
    assert walking.traces(home) == before
    stop_keepers(home)
    walking.walk_on(api.restore(image))


def test_the_job_of_another_user(home: Path) -> None:
    """The folder is another user's, and the right to overlook that is missing."""
    counting("count", 4)
    stranger = Cli()
    stranger.command = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search", *Cli.command)
    jobs = paths.jobs_dir()
    subprocess.run(["chown", "65534", home, jobs], check=True)
    try:
        home.chmod(0o700)
        done = stranger("checkpoint", "count", "--json", check=errors.NoRights.code)
        assert str(home) in json.loads(done.stdout)["error"]["message"]
    finally:
        subprocess.run(["chown", "0", home, jobs], check=True)
    walking.walk_on(api.job("count"))
