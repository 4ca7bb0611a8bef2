"""What the host does to a job at the wrong moment: frozen cgroups, missing rights, storage that fills up or goes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import torpor
from tests.conftest import REPOSITORY, Cli, eventually, keeper_of, start_keeper, stop_keepers
from tests.flow import walking
from torpor import api, errors
from torpor.process import tree
from torpor.process.probe import CAPABILITIES
from torpor.records import JobState

pytestmark = pytest.mark.criu

COUNT = REPOSITORY / "examples" / "count.py"
SECONDS = 20.0


def counting(mib: int = 4, name: str = "count") -> api.Job:
    argv = [sys.executable, str(COUNT), "--mib", str(mib), "--delay", "0.005"]
    job = torpor.run(argv, name=name, gpu="sim")
    eventually(lambda: b"count 3\n" in b"".join(job.logs()))
    return job


def root_of(job: api.Job) -> int:
    assert job.record.supervisor_pid is not None
    found = tree.host_pid(job.record.supervisor_pid, 300)
    assert found is not None
    return found


class Freezer:
    """A cgroup that can be frozen, of version 2 where there is one."""

    def __init__(self) -> None:
        mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
        second = [Path(fields[1]) for fields in mounts if fields[2] == "cgroup2"]
        first = [Path(fields[1]) for fields in mounts if fields[2] == "cgroup" and "freezer" in fields[3].split(",")]
        parent, self._file, self._words = (
            (second[0], "cgroup.freeze", ("1", "0")) if second else (first[0], "freezer.state", ("FROZEN", "THAWED"))
        )
        self.path = parent / f"torpor-cases-{os.getpid()}"
        self.path.mkdir()

    def take(self, pid: int) -> None:
        (self.path / "cgroup.procs").write_text(str(pid))

    def freeze(self, pid: int) -> None:
        (self.path / self._file).write_text(self._words[0])
        eventually(lambda: tree.frozen_by(pid) is not None)

    def thaw(self) -> None:
        (self.path / self._file).write_text(self._words[1])

    def close(self) -> None:
        self.thaw()
        eventually(lambda: not (self.path / "cgroup.procs").read_text())
        self.path.rmdir()


@pytest.fixture
def freezer() -> Iterator[Freezer]:
    one = Freezer()
    yield one
    one.close()


@pytest.fixture
def frozen_later(freezer: Freezer, home: Path) -> Iterator[Freezer]:
    """The home's jobs end before the cgroup goes."""
    del home
    yield freezer
    for job in api.jobs():
        if job.exit_code is None and job.state is JobState.RUNNING:
            job.kill(9)
            job.wait(100)


def test_a_frozen_job_is_refused_and_runs_on_when_thawed(frozen_later: Freezer) -> None:
    job = counting()
    pid = root_of(job)
    frozen_later.take(pid)
    frozen_later.freeze(pid)
    began = time.monotonic()
    with pytest.raises(errors.WrongState, match="frozen by the cgroup") as caught:
        job.checkpoint()
    assert str(frozen_later.path) in caught.value.message
    assert time.monotonic() - began < SECONDS
    frozen_later.thaw()
    walking.walk_on(job)
    woken = torpor.restore(job.checkpoint(tier="dram"))
    walking.walk_on(woken)


@pytest.mark.full
def test_a_job_frozen_while_it_is_stopped_ends_the_checkpoint_in_time(
    frozen_later: Freezer, torpor_cli: Cli, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    torpor_cli("keeper", "start", env={"TORPOR_FAULT": f"freeze@1=hang:{gate}"})
    job = counting()
    pid = root_of(job)
    frozen_later.take(pid)

    def meanwhile() -> None:
        eventually(Path(f"{gate}.reached").exists)
        frozen_later.freeze(pid)
        gate.touch()

    thread = threading.Thread(target=meanwhile)
    thread.start()
    began = time.monotonic()
    with pytest.raises(errors.StepFailed, match="frozen by the cgroup") as caught:
        job.checkpoint(deadline=1.0)
    thread.join()
    assert time.monotonic() - began < 2 * SECONDS  # half a minute is what a slow process is given to answer
    assert caught.value.details["step"] == "freeze"
    assert job.state is JobState.RUNNING
    frozen_later.thaw()
    walking.walk_on(job)
    walking.walk_on(torpor.restore(job.checkpoint(tier="dram")))


@pytest.fixture
def torpor_cli(home: Path) -> Cli:
    del home
    return Cli()


OFTEN = ("CAP_SYS_ADMIN", "CAP_SYS_PTRACE")


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=[] if one in OFTEN else [pytest.mark.full]) for one in CAPABILITIES]
)
def test_a_keeper_without_a_capability_works_or_names_it(torpor_cli: Cli, home: Path, name: str) -> None:
    counting()
    poor = ("setpriv", "--bounding-set", f"-{name.removeprefix('CAP_').lower()}")
    start_keeper(home, prefix=poor)
    for verb in ("checkpoint", "restore"):
        before = walking.traces(home)
        told = torpor_cli(verb, "count" if verb == "checkpoint" else "count-1", "--json", check=None)
        if told.returncode != 0:
            assert told.returncode == errors.NoRights.code, told.stdout
            error = json.loads(told.stdout)["error"]
            assert name in error["message"] + (error["hint"] or "")
            assert walking.traces(home) == before
            stop_keepers(home)
            torpor_cli(verb, "count" if verb == "checkpoint" else "count-1")
            start_keeper(home, prefix=poor)
    walking.walk_on(api.job("count"))


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "torpor-test", place], check=True)
    yield place
    subprocess.run(["umount", place], check=True)


def refused_for_space(job: api.Job, home: Path, place: Path) -> int:
    """A checkpoint into this place does not fit: what is needed and free is told, and nothing was touched."""
    before, there = walking.traces(home), os.listdir(place)
    with pytest.raises(errors.NoSpace) as caught:
        job.checkpoint(to=place / "image")
    needed, free = caught.value.details["needed"], caught.value.details["free"]
    assert needed > free >= 0
    assert abs(free - shutil.disk_usage(place).free) <= 1 << 20
    assert os.listdir(place) == there
    assert walking.traces(home) == before
    assert isinstance(needed, int)
    return needed


def test_a_file_system_of_64_mib(home: Path, mounted: Path) -> None:
    """An image does not fit, and the estimate says so; enlarged it takes one, and not another, and keeps the first."""
    job = counting(mib=72)
    needed = refused_for_space(job, home, mounted)
    walking.walk_on(job, 75)
    subprocess.run(["mount", "-o", f"remount,size={needed * 5 // 4}", mounted], check=True)
    first = job.checkpoint(leave_running=True, to=mounted / "first")
    refused_for_space(job, home, mounted)
    first.verify()
    walking.walk_on(job, 75)
    job.kill(9)
    assert job.wait(100)
    walking.walk_on(torpor.restore(first, name="again"), 75)


@pytest.mark.parametrize(
    "limit",
    [4096, *(pytest.param(mib << 20, marks=pytest.mark.full) for mib in (1, 30))],
    ids=lambda one: f"{one} bytes",
)
def test_files_may_not_grow(home: Path, torpor_cli: Cli, limit: int) -> None:
    """RLIMIT_FSIZE of the keeper: writes end short, then fail with EFBIG; the signal that comes along kills nobody."""
    job = counting(mib=32)
    old = job.checkpoint(leave_running=True)
    keeper = keeper_of(home)
    subprocess.run(["prlimit", "--pid", str(keeper), f"--fsize={limit}:unlimited"], check=True)
    before = walking.traces(home)
    told = torpor_cli("checkpoint", "count", "--json", check=None)
    assert told.returncode in (errors.NoSpace.code, errors.StepFailed.code), told
    assert json.loads(told.stdout)["error"]["message"]
    assert keeper_of(home) == keeper
    assert walking.traces(home) == before
    walking.walk_on(job, 40)
    old.verify()
    subprocess.run(["prlimit", "--pid", str(keeper), "--fsize=unlimited:unlimited"], check=True)
    walking.walk_on(torpor.restore(job.checkpoint()), 40)


@pytest.mark.parametrize(
    ("step", "what"),
    [
        ("criu dump", "files"),
        ("commit", "folder"),
        *(pytest.param(step, "files", marks=pytest.mark.full) for step in ("wait for copy", "commit")),
        *(pytest.param(step, "folder", marks=pytest.mark.full) for step in ("copy", "criu dump", "wait for copy")),
    ],
)
def test_somebody_removes_the_unfinished_image(home: Path, tmp_path: Path, step: str, what: str) -> None:
    """A cleaner that takes it for a leftover: the checkpoint fails, the job runs on, the old image is what it was."""
    gate = tmp_path / "gate"
    job = counting()
    old = job.checkpoint(leave_running=True)
    start_keeper(home, {"TORPOR_FAULT": f"{step}@1=hang:{gate}"})
    before = walking.traces(home)

    def remove() -> None:
        eventually(Path(f"{gate}.reached").exists)
        [partial] = (home / "images").glob("*.partial")
        if what == "folder":
            shutil.rmtree(partial)
        else:
            # The copy goes on beside what stands at the gate.
            for file in eventually(lambda: [one for one in partial.rglob("*") if one.is_file()]):
                file.unlink()

    def meanwhile() -> None:
        try:
            remove()
        finally:
            gate.touch()

    thread = threading.Thread(target=meanwhile)
    thread.start()
    try:
        with pytest.raises(errors.TorporError) as caught:
            job.checkpoint()
    finally:
        thread.join()
    assert caught.value.message
    assert walking.traces(home) == before
    old.verify()
    walking.walk_on(job, 20)
    walking.walk_on(torpor.restore(job.checkpoint()), 20)


@pytest.fixture
def node() -> Iterator[Callable[[int], Path]]:
    """Makes `/dev/nvidia<n>` for a number that no GPU has: a null device that is named like one."""
    made: list[Path] = []

    def make(minor: int) -> Path:
        path = Path("/dev/nvidia213")
        path.unlink(missing_ok=True)
        os.mknod(path, 0o666 | 0o020000, os.makedev(1, minor))
        made.append(path)
        return path

    yield make
    for path in made:
        path.unlink(missing_ok=True)


def test_a_device_node_without_cuda_is_refused(home: Path, node: Callable[[int], Path], tmp_path: Path) -> None:
    """A program that has a GPU's device open and no CUDA state, as NVML users and forked workers do."""
    del home
    path = node(3)
    code = (
        f"import os, time; f = os.open({str(path)!r}, os.O_RDWR); print('ready', flush=True)\n"
        f"while not os.path.exists({str(tmp_path / 'go')!r}): time.sleep(0.01)\n"
        "print(os.write(f, b'abc'))"
    )
    job = torpor.run([sys.executable, "-c", code], name="holds", gpu="sim")
    eventually(lambda: b"ready" in b"".join(job.logs()))
    with pytest.raises(errors.Refused, match="has GPU devices open but does not use CUDA") as caught:
        job.checkpoint()
    assert caught.value.details["resource"] == "gpu-device"
    (tmp_path / "go").touch()
    assert walking.finish(job) == ["3", "ready"]


def test_a_device_node_that_is_missing_where_the_job_wakes(
    home: Path, node: Callable[[int], Path], tmp_path: Path
) -> None:
    """Named, nothing is left, and the image wakes where the node is: with the number that the node has there."""
    path = node(3)
    code = (
        "import os, sys, time\nfrom cuda.bindings import driver\n"
        f"driver.cuInit(0); driver.cuDevicePrimaryCtxRetain(0); f = os.open({str(path)!r}, os.O_RDWR)\n"
        f"print('ready', flush=True)\nwhile not os.path.exists({str(tmp_path / 'go')!r}): time.sleep(0.01)\n"
        f"print(os.fstat(f).st_rdev == os.stat({str(path)!r}).st_rdev)"
    )
    job = torpor.run([sys.executable, "-c", code], name="holds", gpu="sim")
    eventually(lambda: b"ready" in b"".join(job.logs()))
    image = job.checkpoint(tier="dram")
    path.unlink()
    eventually(lambda: not walking.processes_of(home))
    before = walking.traces(home)
    with pytest.raises(errors.TorporError, match=str(path)):
        torpor.restore(image)
    assert walking.traces(home) == before
    node(3)
    woken = torpor.restore(image)
    (tmp_path / "go").touch()
    assert walking.finish(woken) == ["True", "ready"]
