"""Checkpoints into a store: what moves is what the store lacks, and what comes out of it is the job."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import eventually
from tests.flow import walking
from torpor import api, errors, paths
from torpor.records import JobState
from torpor.store_handle import Store, diff

pytestmark = pytest.mark.criu

MIB = 1 << 20
CHUNK = 512 << 10
SIZE = 8
"""MiB of the model."""


@pytest.fixture
def store(home: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """An empty store; device memory is hashed on the device, as on a real one."""
    monkeypatch.setenv("TORPOR_HASH", "gpu")
    monkeypatch.setenv("TORPOR_SIM_DIR", str(home))
    return api.create_store(str(home / "store"))


def model(name: str, seed: int = 1, mib: int = SIZE) -> api.Job:
    program = str(Path(__file__).with_name("weights.py"))
    job = api.run([sys.executable, program, str(mib), str(seed)], name=name, gpu="sim")
    says(job, "ready")
    return job


def says(job: api.Job, line: str) -> None:
    eventually(lambda: line in walking.output(job))


def is_sound(job: api.Job, times: int) -> None:
    """Whether all of its memory is as it should be, asked for so many times."""
    job.kill(signal.SIGUSR2)
    says(job, f"sound {times}")


class Steps:
    """Bytes that each step of a verb moved."""

    def __init__(self) -> None:
        self.bytes: dict[str, int] = {}

    def __call__(self, event: api.Progress) -> None:
        self.bytes[event.phase] = event.bytes


def size_of(store: Store) -> int:
    return sum(file.stat().st_size for file in Path(store.url, "packs").iterdir())


def sifted(result: Any, by: str = "gpu") -> tuple[int, int]:
    """Bytes that left GPU memory, and those that the store had."""
    assert result.sifted["by"] == by, result.sifted
    return result.sifted["moved"], result.sifted["known"]


def nothing_waits() -> None:
    assert not [*paths.home().rglob("*.partial"), *paths.dram_dir().rglob("*.partial")]
    assert not list((paths.dram_dir() / ".staged").iterdir())


def test_what_did_not_change_does_not_move_and_the_job_wakes_from_it(store: Store, home: Path) -> None:
    job = model("model")
    first = store.checkpoint(job, leave_running=True)
    assert sifted(first) == (SIZE * MIB, 0)
    full = size_of(store)
    second = store.checkpoint(job, leave_running=True)
    assert sifted(second) == (0, SIZE * MIB)
    # What is new is of the process's own memory alone.
    assert second.new < 6 * MIB
    assert size_of(store) - full < full / 5

    job.kill(signal.SIGUSR1)
    says(job, "changed 1")
    job.suspend(tier="hbm")
    third = store.checkpoint(job)
    assert sifted(third) == (CHUNK, SIZE * MIB - CHUNK)
    assert job.state is JobState.ASLEEP
    assert job.record.image == f"model-3@{store.url}"
    nothing_waits()
    assert store.verify().problems == []

    steps = Steps()
    woken = api.restore(store.image("model-3"), progress=steps)
    assert woken.name == "model"
    # Every chunk was checked on its way, and no file that had been checked was read again.
    assert steps.bytes["copy"] == SIZE * MIB
    assert 0 < steps.bytes["fetch"] <= third.bytes - SIZE * MIB
    assert "verify" not in steps.bytes
    assert not list((paths.dram_dir() / ".fetched").iterdir())
    is_sound(woken, 1)
    # The same bytes by way of a folder, hashed by the host, are the same chunks.
    folder = woken.checkpoint(leave_running=True)
    store.put(folder, name="by-folder")
    assert diff(store.image("model-3"), store.image("by-folder"))["bytes"]["gpu"]["moved"] == 0
    back = store.image("model-3").get(home / "model-3")
    back.verify()
    assert {e.path: e.hash for e in back.manifest.segments()} == {e.path: e.hash for e in folder.manifest.segments()}
    is_sound(api.restore(back, name="other"), 1)


@pytest.mark.parametrize(
    "fault", ["cuLaunchKernel@2+=fail:1", pytest.param("cuModuleLoadData@1+=fail:209", marks=pytest.mark.full)]
)
def test_where_the_gpu_cannot_hash_the_host_does(store: Store, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    monkeypatch.setenv("TORPOR_SIM_FAULT", fault)
    api.keeper_start("sim")
    monkeypatch.delenv("TORPOR_SIM_FAULT")
    job = model("model")
    first = store.checkpoint(job, leave_running=True)
    assert sifted(first, "host") == (SIZE * MIB, 0)
    assert first.sifted is not None
    assert fault.partition("@")[0] in first.sifted["because"]
    api.keeper_stop("sim")
    # The GPU's hashes are the host's.
    assert sifted(store.checkpoint(job)) == (0, SIZE * MIB)
    assert store.verify().problems == []
    is_sound(api.restore(store.image("model-1")), 1)


def test_an_encrypted_folder_gets_and_gives_no_more_than_a_plain_one(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORPOR_HASH", "gpu")
    monkeypatch.setenv("TORPOR_SIM_DIR", str(home))
    api.keeper_start("sim")  # which is told the key by whoever asks
    monkeypatch.chdir(home)
    sealed = api.create_store(str(home / "sealed"), encrypt=True, key_file="key")
    job = model("model")
    with pytest.raises(errors.NoRights, match="no key"):
        job.checkpoint_into(sealed.url, "model-1")
    monkeypatch.setenv("TORPOR_KEY_FILE", "key")
    assert sifted(sealed.checkpoint(job, leave_running=True)) == (SIZE * MIB, 0)
    assert sifted(sealed.checkpoint(job)) == (0, SIZE * MIB)
    nothing_waits()
    steps = Steps()
    is_sound(api.restore(sealed.image("model-2"), progress=steps), 1)
    assert steps.bytes["copy"] == SIZE * MIB
    # Nothing of the GPU's was a file on the way.
    assert 0 < steps.bytes["fetch"] < sealed.image("model-2").stored.head.bytes - SIZE * MIB + 1
    job = api.job("model")
    assert sifted(api.open_store(sealed.url, limit="1GB/s").checkpoint(job)) == (0, SIZE * MIB)
    is_sound(api.restore(api.open_store(sealed.url, limit="1GB/s").image("model-3")), 2)
    assert str(home / "key") not in paths.keeper_log("sim").read_text()


@pytest.mark.full
def test_a_job_suspended_in_dram_goes_in_from_there(store: Store) -> None:
    job = model("model")
    first = store.checkpoint(job, leave_running=True)
    job.suspend(tier="dram")
    second = store.checkpoint(job)
    assert second.sifted is not None
    assert "host memory" in second.sifted["because"]
    assert second.new < 6 * MIB < first.new
    nothing_waits()
    is_sound(api.restore(store.image("model-2")), 1)


@pytest.fixture
def small(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A store on a file system of 4 MiB."""
    monkeypatch.setenv("TORPOR_HASH", "gpu")
    place = home / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "torpor-test", place], check=True)
    yield api.create_store(str(place / "store"))
    subprocess.run(["umount", place], check=True)


def test_a_store_that_is_full_leaves_the_job_running(small: Store, home: Path) -> None:
    job = model("model")
    with pytest.raises(errors.NoSpace):
        small.checkpoint(job)
    assert job.state is JobState.RUNNING
    is_sound(job, 1)
    assert small.images() == []
    nothing_waits()
    with small.repository.lock("exclusive", "prune"):
        pass  # nobody holds the store any more
    other = api.create_store(str(home / "store"))
    other.checkpoint(job)
    is_sound(api.restore(other.image("model-1")), 2)


def test_a_name_that_is_taken_is_refused_before_the_job_is_touched(store: Store) -> None:
    job = model("model", mib=4)
    store.checkpoint(job, leave_running=True)
    with pytest.raises(errors.UsageError, match="model-1"):
        job.checkpoint_into(store.url, "model-1")
    assert job.state is JobState.RUNNING
    with pytest.raises(errors.UsageError, match="not a name"):
        job.checkpoint_into(store.url, "../model")
    with pytest.raises(errors.NotFound, match="no store"):
        job.checkpoint_into(f"{store.url}-that-is-not-there", "model-2")
    is_sound(job, 1)


def test_a_damaged_chunk_is_named_before_anything_starts(store: Store, home: Path) -> None:
    job = model("model", mib=4)
    store.checkpoint(job)
    eventually(lambda: not walking.processes_of(home))
    image = store.image("model-1")
    segment = next(one for one in store.repository.read(image.stored).document.streams if one.kind == "block")
    assert segment.pieces > 1
    pack = max(Path(store.url, "packs").iterdir(), key=lambda path: path.stat().st_size)
    whole = pack.read_bytes()
    pack.write_bytes(whole[:1000] + bytes([whole[1000] ^ 1]) + whole[1001:])
    with pytest.raises(errors.ImageDamaged, match=f"packs/{pack.name}") as caught:
        api.restore(image)
    assert caught.value.details["pack"] == pack.name
    assert not walking.processes_of(home)
    assert api.job("model").state is JobState.ASLEEP
    assert not list((paths.dram_dir() / ".fetched").iterdir())
    pack.write_bytes(whole)
    is_sound(api.restore(image), 1)


@pytest.mark.full
def test_eight_jobs_of_one_model_store_its_weights_once(store: Store) -> None:
    jobs = [model(f"model{number}") for number in range(8)]
    first, *others = [store.checkpoint(job) for job in jobs]
    assert sifted(first) == (SIZE * MIB, 0)
    assert [sifted(one) for one in others] == [(0, SIZE * MIB)] * 7
    # Nor are those of the host, and the rest of its memory that is alike (docs/design/store.md has what it comes to).
    assert all(one.new < 3 * SIZE * MIB < first.new / 4 for one in others)
    for number in range(8):
        is_sound(api.restore(store.image(f"model{number}-1")), 1)
