"""Each way a verb can fail: a clear error and exit status, the job runs on as it was, nothing is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Cli, eventually, keeper_of, start_keeper
from tests.flow import walking
from tests.flow.walking import Reference, command, finish, reference, walk_on
from torpor import api, errors
from torpor.records import JobState

pytestmark = pytest.mark.criu


@pytest.fixture(scope="module")
def undisturbed() -> Reference:
    return reference()


@pytest.fixture
def walk(home: Path) -> api.Job:
    del home
    job = api.run(command(), name="walk", gpu="sim")
    walk_on(job, 5)
    return job


def error(torpor: Cli, kind: type[errors.TorporError], *args: str, **env: str) -> dict[str, Any]:
    """Run a verb that must fail with this kind's exit status, and give its error."""
    done = torpor(args[0], "--json", *args[1:], check=kind.code, env=env)
    told: dict[str, Any] = json.loads(done.stdout)["error"]
    assert told["kind"] == kind.kind
    assert told["message"]
    return told


def test_names_that_name_nothing(torpor: Cli) -> None:
    for verb in ("checkpoint", "suspend", "resume", "kill"):
        assert "nobody" in error(torpor, errors.NotFound, verb, "nobody")["message"]
    assert "nothing" in error(torpor, errors.NotFound, "restore", "nothing")["message"]
    assert error(torpor, errors.NotFound, "restore", "/tmp/not/there")["hint"]


def test_states_that_do_not_allow_it(torpor: Cli, walk: api.Job, undisturbed: Reference) -> None:
    error(torpor, errors.WrongState, "resume", "walk")
    torpor("suspend", "walk")
    assert "resume" in error(torpor, errors.WrongState, "suspend", "walk")["hint"]
    torpor("resume", "walk")
    assert finish(walk) == undisturbed
    error(torpor, errors.WrongState, "checkpoint", "walk")


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Mounts a tmpfs with the options given."""
    places: list[Path] = []

    def mount(options: str) -> Path:
        place = tmp_path / f"mount-{len(places)}"
        place.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "torpor-test", str(place)], check=True)
        places.append(place)
        return place

    yield mount
    for place in places:
        subprocess.run(["umount", str(place)], check=True)


def test_no_space_found_before_anything_is_touched(
    torpor: Cli, home: Path, walk: api.Job, undisturbed: Reference, mounted: Callable[[str], Path]
) -> None:
    small = mounted("size=16m")
    before = walking.traces(home)
    told = error(torpor, errors.NoSpace, "checkpoint", "walk", "--to", str(small / "image"))
    assert told["details"]["needed"] > told["details"]["free"] > 0
    assert list(small.iterdir()) == []
    assert walking.traces(home) == before
    assert finish(walk) == undisturbed


def test_no_space_found_late_rolls_back(
    torpor: Cli, home: Path, walk: api.Job, undisturbed: Reference, mounted: Callable[[str], Path]
) -> None:
    # Space by the bytes, but not by the files: the estimate cannot know.
    small = mounted("size=600m,nr_inodes=12")
    before = walking.traces(home)
    told = error(torpor, errors.NoSpace, "checkpoint", "walk", "--to", str(small / "image"))
    assert told["details"]["step"] or told["message"]
    assert list(small.iterdir()) == []
    walk_on(walk, 3)
    assert walking.traces(home) == before
    assert finish(walk) == undisturbed


def test_no_rights_where_the_image_shall_go(
    torpor: Cli, home: Path, walk: api.Job, undisturbed: Reference, mounted: Callable[[str], Path]
) -> None:
    before = walking.traces(home)
    place = mounted("size=600m,ro")
    assert str(place) in error(torpor, errors.NoRights, "checkpoint", "walk", "--to", str(place / "image"))["message"]
    assert walking.traces(home) == before
    assert finish(walk) == undisturbed


def test_criu_missing(torpor: Cli, home: Path, undisturbed: Reference, tmp_path: Path) -> None:
    torpor("keeper", "start", env={"TORPOR_CRIU": str(tmp_path)})
    job = api.run(command(), name="walk", gpu="sim")
    walk_on(job, 5)
    before = walking.traces(home)
    assert "criu" in error(torpor, errors.CriuMissing, "checkpoint", "walk")["hint"].lower()
    assert walking.traces(home) == before
    assert finish(job) == undisturbed


STEPS = [
    ("target:lock@1=fail:999", "driver lock"),
    ("target:checkpoint@1=fail:801", "driver checkpoint"),
]


@pytest.mark.parametrize(
    ("fault", "step", "verb"),
    [
        (*STEPS[0], "checkpoint"),
        (*STEPS[1], "suspend"),
        pytest.param(*STEPS[0], "suspend", marks=pytest.mark.full),
        pytest.param(*STEPS[1], "checkpoint", marks=pytest.mark.full),
    ],
)
def test_a_step_of_the_driver_fails(
    torpor: Cli, home: Path, undisturbed: Reference, fault: str, step: str, verb: str
) -> None:
    job = api.run(command(), name="walk", gpu="sim", env={"TORPOR_SIM_FAULT": fault})
    walk_on(job, 5)
    before = walking.traces(home)
    told = error(torpor, errors.StepFailed, verb, "walk")
    assert told["details"]["step"] == step
    assert told["details"]["process"] == job.checkpoint(leave_running=True).manifest.root
    assert walking.traces(home)["processes"] == before["processes"]
    assert finish(job) == undisturbed


KEEPER_FAULTS = {
    "import": ("cuMemImportFromShareableHandle@1=fail:999", "copy"),
    "copy": ("cuMemcpyDtoHAsync@1=fail:700", "copy"),
    "pin": ("cuMemHostRegister@1=fail:2", None),
}


@pytest.mark.parametrize(
    ("fault", "tier"),
    [
        *(("import", "dram"), ("copy", "disk"), ("pin", "dram")),
        pytest.param("import", "disk", marks=pytest.mark.full),
        pytest.param("copy", "dram", marks=pytest.mark.full),
        pytest.param("pin", "disk", marks=pytest.mark.full),
    ],
)
def test_the_copy_out_fails(torpor: Cli, home: Path, undisturbed: Reference, fault: str, tier: str) -> None:
    text, step = KEEPER_FAULTS[fault]
    torpor("keeper", "start", env={"TORPOR_SIM_FAULT": text})
    job = api.run(command(), name="walk", gpu="sim")
    walk_on(job, 5)
    before = walking.traces(home)
    kind = errors.StepFailed if step else errors.NoSpace
    told = error(torpor, kind, "checkpoint", "--tier", tier, "walk")
    assert told["details"]["step"] == "copy"
    walk_on(job, 3)
    assert walking.traces(home) == before
    job.suspend(tier="dram")
    job.resume()
    assert finish(job) == undisturbed


RESTORE_FAULTS = {
    "create": ("cuMemCreate@1=fail:2", errors.NoSpace),
    "copy": ("cuMemcpyHtoDAsync@1=fail:700", errors.StepFailed),
    "driver": ("cuCheckpointProcessRestore@1=fail:999", errors.StepFailed),
    "unlock": ("cuCheckpointProcessUnlock@1=fail:999", errors.StepFailed),
    "export": ("cuMemExportToShareableHandle@1=fail:999", errors.StepFailed),
}


@pytest.mark.parametrize("fault", sorted(RESTORE_FAULTS))
def test_a_restore_fails_and_can_be_tried_again(
    torpor: Cli, home: Path, walk: api.Job, undisturbed: Reference, fault: str
) -> None:
    image = walk.checkpoint(tier="dram")
    eventually(lambda: not walking.processes_of(home))
    before = walking.traces(home)
    text, kind = RESTORE_FAULTS[fault]
    start_keeper(home, {"TORPOR_SIM_FAULT": text})
    error(torpor, kind, "restore", image.name)
    eventually(lambda: not walking.processes_of(home))
    assert walking.traces(home) == before
    assert walk.state is JobState.ASLEEP
    assert finish(api.restore(image)) == undisturbed


def test_a_process_dies_in_the_middle(torpor: Cli, home: Path) -> None:
    job = api.run(command(), name="walk", gpu="sim", env={"TORPOR_SIM_FAULT": "target:checkpoint@1=kill"})
    walk_on(job, 5)
    told = error(torpor, errors.StepFailed, "checkpoint", "walk")
    assert told["details"]["step"] == "driver checkpoint"
    assert job.wait(100)
    assert job.state is JobState.KILLED
    assert list((home / "images").iterdir()) == []


def test_a_killed_keeper_loses_nothing(torpor: Cli, home: Path, undisturbed: Reference, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    torpor("keeper", "start", env={"TORPOR_SIM_FAULT": f"cuMemcpyDtoHAsync@1=hang:{gate}"})
    job = api.run(command(), name="walk", gpu="sim")
    walk_on(job, 5)
    with torpor.start("checkpoint", "walk") as asking:
        eventually(lambda: job.state is JobState.CHECKPOINTING and any((home / "images").glob("*/cpu/*")))
        pid = keeper_of(home)
        os.kill(pid, signal.SIGKILL)
        assert asking.wait(100) == errors.KeeperUnavailable.code
    # The next keeper starts by itself, and does what the dead one would have done.
    eventually(lambda: job.state is JobState.RUNNING)
    assert keeper_of(home) != pid
    assert list((home / "images").iterdir()) == []
    walk_on(job, 3)
    gate.touch()
    job.checkpoint(leave_running=True)
    assert finish(job) == undisturbed


def test_a_client_that_leaves_changes_nothing(torpor: Cli, home: Path, undisturbed: Reference, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    torpor("keeper", "start", env={"TORPOR_SIM_FAULT": f"cuMemcpyDtoHAsync@1=hang:{gate}"})
    job = api.run(command(), name="walk", gpu="sim")
    walk_on(job, 5)
    with torpor.start("checkpoint", "walk") as asking:
        eventually(lambda: any((home / "images").glob("*/cpu/*")))
        assert "under way" in error(torpor, errors.WrongState, "suspend", "walk")["message"]
        asking.kill()
    gate.touch()
    eventually(lambda: job.state is JobState.ASLEEP)
    assert finish(api.restore("walk-1")) == undisturbed
