"""A job's way into a store and out of it again, on the software GPU with real CRIU."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY, Cli, eventually
from torpor import api

COUNTER = (sys.executable, str(REPOSITORY / "examples" / "count.py"), "--mib", "8", "--delay", "0.02")

pytestmark = pytest.mark.criu


def counts(torpor: Cli, job: str) -> list[int]:
    """The numbers that a job has printed so far; the last line may be on its way."""
    return [int(number) for number in re.findall(rb"^count (\d+)\n", torpor("logs", job).stdout, re.MULTILINE)]


def passes(torpor: Cli, job: str, number: int) -> None:
    eventually(lambda: counts(torpor, job)[-1:] > [number])


@pytest.fixture
def store(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = home / "store"
    api.create_store(str(path)).close()
    monkeypatch.setenv("TORPOR_STORE", str(path))
    return path


@pytest.fixture
def counter(torpor: Cli) -> str:
    """The name of a job that counts and has printed some numbers."""
    torpor("run", "-d", "--name", "count", "--", *COUNTER)
    passes(torpor, "count", 5)
    return "count"


def images_here(torpor: Cli, home: Path) -> list[str]:
    """Names of the user's own images, and whatever else a restore may have left in their folders."""
    left = [path.name for path in (home / "images").rglob("*") if path.is_file()]
    return [one["name"] for one in torpor.json("images")] + left


@pytest.mark.parametrize("tier", ["dram", pytest.param("disk", marks=pytest.mark.full)])
def test_a_job_goes_on_from_a_store(torpor: Cli, home: Path, store: Path, counter: str, tier: str) -> None:
    first = torpor.json("checkpoint", counter, "--store", str(store), "--tier", tier, "--durable", "--leave-running")
    assert first["new"] >= 1 << 20
    passes(torpor, counter, counts(torpor, counter)[-1] + 3)
    second = torpor.json("checkpoint", counter, "--store", "@", "--tier", tier, "--durable")
    assert (first["image"], second["image"]) == ("count-1", "count-2")
    # The counter rewrites little of its memory, so most of it was there already.
    assert second["new"] < 0.75 * first["new"]
    assert images_here(torpor, home) == []
    torpor("verify", "--store", str(store))
    last = counts(torpor, counter)[-1]

    woken = torpor.json("restore", "count-2@")
    assert (woken["job"], woken["store"]) == (counter, str(store))
    passes(torpor, counter, last + 3)
    numbers = counts(torpor, counter)
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    assert images_here(torpor, home) == []
    torpor("restore", "count-1@", "--name", "older")
    passes(torpor, "older", numbers[-1])


def test_a_copy_of_an_image_wakes_too(torpor: Cli, store: Path, counter: str) -> None:
    saved = torpor.json("checkpoint", counter)
    torpor("copy", saved["image"], str(store))
    last = counts(torpor, counter)[-1]
    torpor("rm", "--image", saved["image"])
    torpor("copy", f"{saved['image']}@", "--tier", "dram")
    # The sleeping job went into another folder, so this is another job.
    woken = torpor.json("restore", saved["image"])["job"]
    passes(torpor, woken, last + 3)


def test_an_unusable_store_is_refused_before_the_job_is_touched(torpor: Cli, store: Path, counter: str) -> None:
    (store / "config").write_bytes(b"nonsense\n")
    torpor("checkpoint", counter, "--store", "@", check=7)
    assert torpor.json("ps")[0]["state"] == "running"
    passes(torpor, counter, counts(torpor, counter)[-1] + 1)


def test_the_same_in_python(torpor: Cli, home: Path, counter: str) -> None:
    with api.create_store(str(home / "own")) as store:
        job = api.job(counter)
        first = store.checkpoint(job, leave_running=True)
        second = store.checkpoint(job)
        assert [image.name for image in store.images()] == ["count-1", "count-2"]
        assert second.new < first.new
        assert job.state == "asleep"
        last = counts(torpor, counter)[-1]
        assert api.restore(store.image("count-2")).name == counter
        passes(torpor, counter, last + 3)
