"""A process that Torpor did not start goes into a store: all of it by CRIU's files, and no folder is an image of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Cli, eventually, start_keeper
from tests.flow.test_into_store import MIB, nothing_waits, says, small, store
from torpor import api, errors, paths
from torpor.records import JobState
from torpor.store_handle import Store

__all__ = ["small", "store"]

pytestmark = pytest.mark.criu


class Stranger:
    """A model (weights.py) that is no job, and prints into a pipe."""

    def __init__(self, mib: int = 16) -> None:
        library = paths.software_gpu()
        assert library is not None
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("weights.py")), str(mib), "1"],
            env={**os.environ, "LD_LIBRARY_PATH": str(library.parent)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,  # that of the tests may be one from outside their PID namespace
        )
        self.pid = self.process.pid
        assert self.line() == "ready"

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().decode().strip()

    def is_sound(self, times: int) -> None:
        self.process.send_signal(signal.SIGUSR2)
        assert self.line() == f"sound {times}"


@pytest.fixture
def stranger(home: Path) -> Iterator[Stranger]:
    del home
    found = Stranger()
    yield found
    found.process.kill()
    found.process.communicate()


def no_image_is_here() -> None:
    assert api.images() == []
    nothing_waits()


def test_it_goes_straight_and_wakes_from_there(store: Store, stranger: Stranger, torpor: Cli) -> None:
    made: list[Path] = []

    def look(_event: api.Progress) -> None:
        made.extend(paths.tier_dir("disk").glob("*"))

    first = store.checkpoint_process(stranger.pid, name="taken", leave_running=True, progress=look)
    assert first.image.head.name == "taken-1"
    assert first.image.head.gpu_bytes == 0
    assert first.new > 16 * MIB
    assert api.jobs() == []
    stranger.is_sound(1)
    told = torpor.json("checkpoint", "--pid", str(stranger.pid), "--name", "taken", "--store", store.url)
    assert (told["job"], told["image"]) == ("taken", "taken-2")
    # What had not changed was there.
    assert told["new"] < first.new / 2
    assert told["sifted"]["moved"] == 0
    assert stranger.process.wait() == -signal.SIGKILL
    assert made == []
    no_image_is_here()
    assert api.job("taken").record.image == f"taken-2@{store.url}"
    assert store.verify().problems == []
    woken = api.restore(store.image("taken-2"))
    woken.kill(signal.SIGUSR2)
    says(woken, "sound 2")


def test_a_store_that_fails_takes_nothing_from_it(small: Store, stranger: Stranger) -> None:
    with pytest.raises(errors.NoSpace):
        small.checkpoint_process(stranger.pid)
    stranger.is_sound(1)
    assert api.jobs() == []
    assert small.images() == []
    no_image_is_here()
    with small.repository.lock("exclusive", "prune"):
        pass  # nobody holds the store any more


@pytest.mark.parametrize("step", ["commit", pytest.param("commit:end", marks=pytest.mark.full), "criu end:end"])
def test_a_keeper_that_dies_leaves_the_process_or_its_image(store: Store, stranger: Stranger, step: str) -> None:
    start_keeper(paths.home(), {"TORPOR_FAULT": f"{step}=kill"})
    with pytest.raises(errors.KeeperUnavailable):
        store.checkpoint_process(stranger.pid, name="taken")
    job = api.job("taken")
    state = JobState.ASLEEP if step == "criu end:end" else JobState.RUNNING
    eventually(lambda: job.state is state and job.record.unfinished is None)
    assert [one.name for one in store.images()] == ([] if step == "commit" else ["taken-1"])
    assert store.verify().problems == []
    no_image_is_here()
    if state is JobState.RUNNING:
        stranger.is_sound(1)
    else:
        assert stranger.process.wait() == -signal.SIGKILL
        woken = api.restore(store.image("taken-1"))
        woken.kill(signal.SIGUSR2)
        says(woken, "sound 1")


def test_by_way_of_memory_it_stays_a_job_that_sleeps_where_the_store_fails(
    small: Store, stranger: Stranger, home: Path
) -> None:
    with pytest.raises(errors.NoSpace, match="whole in memory, as taken-1"):
        small.checkpoint_process(stranger.pid, name="taken", tier="dram")
    job = api.job("taken")
    assert job.state is JobState.ASLEEP
    subprocess.run(["mount", "-o", "remount,size=128m", home / "small"], check=True)
    api.flush("taken-1")
    eventually(lambda: job.state and job.record.image == f"taken-1@{small.url}")
    assert api.images() == []
    woken = api.restore(small.image("taken-1"))
    woken.kill(signal.SIGUSR2)
    says(woken, "sound 1")
