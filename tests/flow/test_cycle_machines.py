"""Several devices, several processes, and waking on a machine whose devices are not the ones of before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import torpor
from tests.conftest import eventually, stop_keepers
from tests.flow import walking
from tests.flow.walking import command, finish, reference, walk_on
from torpor import errors, paths

pytestmark = pytest.mark.criu

A, B, C, D = (f"GPU-00000000-0000-4000-8000-00000000000{letter}" for letter in "abcd")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, home: Path) -> Iterator[Machine]:
    """Describes the software GPUs of everything started from now on."""
    del home
    yield Machine(monkeypatch)


class Machine:
    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch

    def becomes(self, *uuids: str, arch: str = "9.0", memory: str = "2G") -> None:
        """The keeper is stopped, so that the next one finds the new machine."""
        stop_keepers(paths.home())
        self._patch.setenv("TORPOR_SIM_DEVICES", str(len(uuids)))
        self._patch.setenv("TORPOR_SIM_UUID", ",".join(uuids))
        self._patch.setenv("TORPOR_SIM_ARCH", arch)
        self._patch.setenv("TORPOR_SIM_MEMORY", memory)


@pytest.mark.parametrize("devices", [2, pytest.param(4, marks=pytest.mark.full)])
def test_several_devices(machine: Machine, devices: int) -> None:
    machine.becomes(*(A, B, C, D)[:devices])
    undisturbed = reference()
    job = torpor.run(command(), name="walk", gpu="sim")
    walk_on(job)
    for tier in ("hbm", "dram"):
        job.suspend(tier=tier)
        job.resume()
        walk_on(job)
    job.checkpoint(leave_running=True)
    image = job.checkpoint(tier="dram")
    assert [device.uuid for device in image.manifest.processes[0].devices] == list((A, B, C, D)[:devices])
    assert {block.device for block in image.manifest.processes[0].blocks} == set(range(devices))
    assert finish(torpor.restore(image)) == undisturbed


def test_several_processes(machine: Machine) -> None:
    machine.becomes(A, B)
    undisturbed = reference("--workers", "2")
    job = torpor.run(command("--workers", "2"), name="walk", gpu="sim")
    walk_on(job)
    job.suspend(tier="dram")
    job.resume()
    walk_on(job)
    image = job.checkpoint(leave_running=True)
    assert len(image.manifest.processes) == 3
    walk_on(job)
    last = job.checkpoint()
    assert finish(torpor.restore(last)) == undisturbed
    assert finish(torpor.restore(image, name="earlier")) == undisturbed


def test_other_devices_by_map_and_by_choice(machine: Machine) -> None:
    machine.becomes(A, B)
    undisturbed = reference()
    job = torpor.run(command(), name="walk", gpu="sim")
    walk_on(job)
    image = job.checkpoint()
    machine.becomes(C, D)
    woken = torpor.restore(image, name="chosen")
    again = woken.checkpoint()
    seen = [device.uuid for device in again.manifest.processes[0].devices]
    assert set(seen) == {C, D}
    assert finish(torpor.restore(again, name="later")) == undisturbed
    assert finish(torpor.restore(image, name="crossed", gpu_map={"0": D, B: "0"})) == undisturbed


def test_swapped_on_the_same_machine(machine: Machine) -> None:
    machine.becomes(A, B)
    undisturbed = reference()
    job = torpor.run(command(), name="walk", gpu="sim")
    walk_on(job)
    image = job.checkpoint(tier="dram")
    assert finish(torpor.restore(image, gpu_map={"0": "1"})) == undisturbed


def test_a_machine_that_does_not_fit_is_named_and_nothing_starts(machine: Machine, home: Path) -> None:
    machine.becomes(A)
    undisturbed = reference()
    job = torpor.run(command(), name="walk", gpu="sim")
    walk_on(job)
    image = job.checkpoint()
    eventually(lambda: not walking.processes_of(home))
    before = walking.traces(home)
    machine.becomes(A, arch="8.0")
    with pytest.raises(errors.ImageMismatch, match=r"9\.0"):
        torpor.restore(image)
    machine.becomes(B, memory="8M")
    with pytest.raises(errors.NoSpace) as caught:
        torpor.restore(image)
    assert caught.value.details["needed"] > caught.value.details["free"]
    machine.becomes(A)
    with pytest.raises(errors.UsageError, match="no GPU '7'"):
        torpor.restore(image, gpu_map={"0": "7"})
    assert walking.traces(home) == before
    assert finish(torpor.restore(image)) == undisturbed
