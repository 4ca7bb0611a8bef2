"""What goes wrong while an image in memory is being written: the image stays whole, says why, and gets there yet."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.conftest import Cli, end_everything, eventually, keeper_of, start_keeper
from tests.flow.test_durable import counter, counts, goes_on, nothing_is_left, stands, store, writers
from torpor import api, errors, paths, writeback
from torpor.keeper import client
from torpor.keeper.writeback import AGAIN_MOST
from torpor.records import Backend, JobState
from torpor.store_handle import Store

pytestmark = pytest.mark.criu

__all__ = ["store"]

KILLED = {
    "before the writer": "write back=kill",
    "in the middle": "write chunks@2=hang:GATE",
    "before the commit": "write image=hang:GATE",
    "after the commit": "write image:end=hang:GATE",
    "before it leaves memory": "leave memory=kill",
    "when it has left memory": "leave memory:end=kill",
}
"""Where the keeper is killed: by its own hand, or while its writer waits."""


@pytest.mark.parametrize("place", ["store", pytest.param("folder", marks=pytest.mark.full)])
@pytest.mark.parametrize("when", list(KILLED))
def test_the_next_keeper_goes_on_where_one_was_killed(home: Path, store: Store, when: str, place: str) -> None:
    gate = home / "gate"
    job = counter()
    pid = start_keeper(home, {"TORPOR_FAULT": KILLED[when].replace("GATE", str(gate))})
    there = home / "there"
    where = f"count-1@{store.url}" if place == "store" else str(there)
    with suppress(errors.KeeperUnavailable):  # it may be dead before it has answered
        image = store.begin_checkpoint(job) if place == "store" else job.checkpoint(to=there, tier="dram")
        assert image.handle == where
    if "hang" in KILLED[when]:
        stands(gate)
        assert len(writers(home)) == 1
        os.kill(pid, signal.SIGKILL)
    # Nobody asks for it: the next keeper starts by itself, and the old one's writer does not get in its way.
    eventually(lambda: not writeback.orders())
    assert keeper_of(home) != pid
    nothing_is_left()
    assert api.flush(where).place == where
    if place == "store":
        assert [one.name for one in store.images()] == ["count-1"]
        assert store.verify().problems == []
    else:
        api.open_image(there).verify()
    assert job.state is JobState.ASLEEP
    assert api.job("count").record.image == where
    api.restore(where)
    goes_on(job, counts(job)[-1])
    assert not writers(home)


@pytest.mark.parametrize("place", ["store", "folder"])
def test_what_has_gone_meanwhile_is_written_again(home: Path, store: Store, place: str) -> None:
    """A keeper was killed before the image left the memory, and what it had written was removed."""
    job = counter()
    gate, there = home / "gate", home / "there"
    pid = start_keeper(home, {"TORPOR_FAULT": f"leave memory=hang:{gate}"})
    if place == "store":
        store.begin_checkpoint(job)
    else:
        job.checkpoint(to=there, tier="dram")
    stands(gate)
    if place == "store":
        (image,) = store.images()
        image.remove()
    else:
        shutil.rmtree(there)
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not writeback.orders())
    nothing_is_left()
    api.restore(f"count-1@{store.url}" if place == "store" else str(there))
    goes_on(job, counts(job)[-1])


@pytest.mark.parametrize(
    ("fault", "code", "reason"),
    [
        ("write chunks@2=fail:28", errors.NoSpace.code, "no space left"),
        ("write chunks@2=fail:5", errors.StepFailed.code, "Input/output error"),
        ("write image=fail:30", errors.NoRights.code, "Read-only"),
        ("write chunks@2=kill", errors.TorporError.code, "was killed"),
        ("write back@1+=fail:5", errors.StepFailed.code, "Input/output error"),
    ],
)
def test_a_failure_is_told_and_the_image_stays_whole(
    torpor: Cli, home: Path, store: Store, fault: str, code: int, reason: str
) -> None:
    start_keeper(home, {"TORPOR_FAULT": fault})
    job = counter()
    failed = torpor("checkpoint", "count", "--tier", "dram", "--store", "@", "--durable", check=code).stderr.decode()
    assert reason in failed
    assert "whole in memory, as count-1" in failed
    assert job.state is JobState.ASLEEP
    (image,) = torpor.json("images")
    assert (image["durable"], image["writing"]["phase"]) == (False, "failed")
    assert image["writing"]["error"]["code"] == code
    assert reason in torpor("images").stdout.decode()
    assert reason in torpor("show", "count-1").stdout.decode()
    assert store.images() == []
    with store.repository.lock("exclusive", "prune", wait=0.1):
        pass  # nobody holds the store any more
    # A keeper that only waits for its next try can be stopped; the next one tries at once to whom it is new.
    torpor("keeper", "stop")
    torpor("restore", "count-1")
    goes_on(job, counts(job)[-1])
    torpor("flush")
    assert [one.name for one in store.images()] == ["count-1"]
    nothing_is_left()


@pytest.fixture
def small(home: Path) -> Iterator[Store]:
    """A store on a file system of 4 MiB, which grows."""
    place = home / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "torpor-test", place], check=True)
    yield api.create_store(str(place / "store"))
    subprocess.run(["umount", place], check=True)


def test_a_full_disk_keeps_it_in_memory_until_there_is_room(torpor: Cli, home: Path, small: Store) -> None:
    job = counter()
    image = small.begin_checkpoint(job)
    with pytest.raises(errors.NoSpace, match="whole in memory"):
        image.flush()
    with pytest.raises(errors.NoSpace):
        image.flush()
    image.verify()
    course = image.course
    assert course is not None
    assert (course.phase, course.tries) == ("failed", 2)
    course.tries = 2000  # as after some months
    writeback.save_course(image.path, course)
    with pytest.raises(errors.NoSpace):
        image.flush()
    eventually(lambda: (found := image.course) is not None and found.again > time.time() + AGAIN_MOST / 2)
    subprocess.run(["mount", "-o", "remount,size=1g", home / "small"], check=True)
    assert torpor.json("flush", "count-1")["flushed"][0]["place"] == f"count-1@{small.url}"
    nothing_is_left()
    api.restore(small.image("count-1"))
    goes_on(job, counts(job)[-1])


def test_a_full_disk_keeps_it_in_memory_until_a_folder_has_room(torpor: Cli, home: Path, small: Store) -> None:
    del small
    job, there = counter(), home / "small" / "there"
    image = job.checkpoint(to=there, tier="dram")
    with pytest.raises(errors.NoSpace, match="whole in memory"):
        image.flush()
    image.verify()
    assert [one.name for one in there.parent.iterdir()] == ["store"]
    subprocess.run(["mount", "-o", "remount,size=1g", home / "small"], check=True)
    assert torpor.json("flush", "count-1")["flushed"][0]["place"] == str(there)
    nothing_is_left()
    api.open_image(there).verify()
    api.restore(there)
    goes_on(job, counts(job)[-1])


def test_nothing_stays_of_a_writer_that_was_killed(torpor: Cli, home: Path) -> None:
    start_keeper(home, {"TORPOR_FAULT": "write chunks@2=kill"})
    job, there = counter(), home / "to" / "there"
    image = job.checkpoint(to=there, tier="dram")
    with pytest.raises(errors.TorporError, match="was killed"):
        image.flush()
    assert list(there.parent.iterdir()) == []
    image.verify()
    torpor("keeper", "stop")  # which goes on failing
    (writeback.folder() / ".count-1.course.begun").touch()  # it may have been killed just as it told how far it was
    assert torpor.json("flush", "count-1")["flushed"][0]["place"] == str(there)
    nothing_is_left()
    api.restore(there)
    goes_on(job, counts(job)[-1])


def test_a_flush_may_come_when_the_image_has_just_left_memory(
    home: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = home / "gate"
    start_keeper(home, {"TORPOR_FAULT": f"leave memory:end=hang:{gate}"})
    image = store.begin_checkpoint(counter())
    stands(gate)
    started = client.ensure_started

    def in_time(backend: Backend) -> None:
        gate.touch()
        started(backend)

    monkeypatch.setattr(client, "ensure_started", in_time)
    assert not (image.path / "manifest.json").exists()
    assert api.flush("count-1").place == f"count-1@{store.url}"
    nothing_is_left()


@pytest.fixture
def little_memory(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """TORPOR_DRAM on a file system of 512 MiB."""
    place = home / "memory"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512m", "torpor-test", place], check=True)
    monkeypatch.setenv("TORPOR_DRAM", str(place))
    yield place
    end_everything(home)
    subprocess.run(["umount", place], check=True)


def fill(file: Path) -> None:
    with pytest.raises(OSError, match="No space"), file.open("wb", buffering=0) as out:
        while True:
            out.write(bytes(4096))


@pytest.mark.parametrize("fault", ["", "write chunks@2=fail:5"])
def test_a_full_memory_is_left(torpor: Cli, home: Path, little_memory: Path, store: Store, fault: str) -> None:
    gate = home / "gate"
    start_keeper(home, {"TORPOR_FAULT": f"write back=hang:{gate};{fault}".rstrip(";")})
    job = counter()
    image = store.begin_checkpoint(job)
    stands(gate)
    fill(little_memory / "others")
    gate.touch()
    if fault:
        with pytest.raises(errors.StepFailed, match="Input/output error"):
            image.flush()
        start_keeper(home)  # which tries at once
    assert torpor.json("flush", "count-1")["flushed"][0]["place"] == f"count-1@{store.url}"
    (little_memory / "others").unlink()
    nothing_is_left()
    api.restore(store.image("count-1"))
    goes_on(job, counts(job)[-1])


def test_a_name_that_was_taken_meanwhile_stays_with_who_has_it(torpor: Cli, home: Path, store: Store) -> None:
    gate = home / "gate"
    start_keeper(home, {"TORPOR_FAULT": f"write back=hang:{gate}"})
    job = counter()
    image = store.begin_checkpoint(job, leave_running=True)
    stands(gate)
    store.put(job.checkpoint(leave_running=True), name="count-1")
    gate.touch()
    assert store.flush(image).image.head.name == "count-2"
    assert torpor.json("flush", "count-1")["flushed"][0]["place"] == f"count-2@{store.url}"
    # Who was told the first name here does not get the other image by it.
    assert torpor.json("show", "count-1@")["name"] == "count-2"
    assert {one.name for one in store.images()} == {"count-1", "count-2"}


def test_an_order_whose_image_never_came_goes(home: Path, store: Store) -> None:
    start_keeper(home, {"TORPOR_FAULT": "commit=fail:5"})
    job = counter()
    with pytest.raises(errors.StepFailed):
        store.begin_checkpoint(job)
    assert job.state is JobState.RUNNING
    nothing_is_left()
    # A keeper that died in between leaves one, and the next removes it.
    writeback.give(paths.dram_dir() / "count-1", writeback.Target(name="count-1", store=store.url), "sim")
    start_keeper(home)
    eventually(lambda: not writeback.orders())
    goes_on(job, counts(job)[-1])
