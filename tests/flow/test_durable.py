"""Checkpoints into memory that become durable afterwards: what holds at each moment, and what is said of it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY, Cli, eventually, start_keeper
from torpor import api, errors, paths, writeback
from torpor.records import JobState
from torpor.store_handle import Store

COUNTER = (sys.executable, str(REPOSITORY / "examples" / "count.py"), "--mib", "2", "--delay", "0.02")

pytestmark = pytest.mark.criu


@pytest.fixture
def store(home: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("TORPOR_STORE", str(home / "store"))
    return api.create_store()


@pytest.fixture
def gate(home: Path) -> Iterator[Path]:
    """What the writer of this test's keeper waits for in the middle of its chunks."""
    path = home / "gate"
    start_keeper(home, {"TORPOR_FAULT": f"write chunks@2=hang:{path}"})
    yield path
    path.touch()


def counter(name: str = "count") -> api.Job:
    job = api.run(COUNTER, name=name, gpu="sim")
    goes_on(job)
    return job


def counts(job: api.Job) -> list[int]:
    """What it has printed so far; the last line may be on its way."""
    return [int(number) for number in re.findall(rb"^count (\d+)\n", b"".join(job.logs()), re.MULTILINE)]


def goes_on(job: api.Job, from_here: int = 0) -> None:
    """It counts, without a gap."""
    eventually(lambda: counts(job)[-1:] > [from_here + 3])
    found = counts(job)
    assert found == list(range(found[0], found[-1] + 1))


def stands(gate: Path) -> None:
    eventually(Path(f"{gate}.reached").exists)


def writers(home: Path) -> list[int]:
    """Processes that write images of this home."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            command = (entry / "cmdline").read_bytes().split(b"\0")
            environ = (entry / "environ").read_bytes().split(b"\0") if b"torpor.keeper.writer" in command else []
        except OSError:
            continue
        if f"TORPOR_HOME={home}".encode() in environ:
            found.append(int(entry.name))
    return found


def nothing_is_left() -> None:
    """No image is in memory, nor on its way; one that has become durable may be about to leave."""
    eventually(lambda: not writeback.orders())
    assert not [*paths.dram_dir().glob("[!.]*"), *paths.home().rglob("*.partial")]
    assert not [file for file in writeback.folder().glob("*") if file.suffix != ".course"]


def test_it_can_be_restored_at_once_and_is_durable_later(torpor: Cli, home: Path, store: Store, gate: Path) -> None:
    counter()
    said = torpor.json("checkpoint", "count", "--tier", "dram", "--store", "@")
    place = f"count-1@{store.url}"
    assert (said["image"], said["durable"], said["writing"]["place"]) == ("count-1", False, place)
    stands(gate)
    assert store.images() == []

    # Everybody says how far it is.
    (image,) = torpor.json("images")
    assert image["writing"]["phase"] == "writing"
    assert re.fullmatch(r"in memory, \d+ % written", image["state"])
    assert image["state"] in torpor("images").stdout.decode()
    assert f"{image['state']} (to {place})" in torpor("show", place).stdout.decode()
    assert f"asleep ({image['state']})" in torpor("ps").stdout.decode()
    assert torpor.json("keeper", "status")["writing"]["count-1"]["place"] == place
    assert "count-1" in torpor("keeper", "stop", check=4).stderr.decode()

    # It wakes from memory by the name that it keeps, and its own name.
    woken = torpor.json("restore", place)
    assert (woken["job"], woken["image"]) == ("count", "count-1")
    job = api.job("count")
    goes_on(job, counts(job)[-1])
    job.kill(signal.SIGKILL)  # which is none of the image's business

    gate.touch()
    assert torpor.json("flush", "count-1")["flushed"] == [{"image": "count-1", "place": place}]
    nothing_is_left()
    assert torpor.json("images") == []
    # Who removes it by the name of a moment ago hears where it is, and that it has not been removed.
    with pytest.raises(errors.NotFound) as gone:
        api.Image(paths.dram_dir() / "count-1").remove()
    for said_of_it in str(gone.value.hint), torpor("rm", "count-1", check=3).stderr.decode():
        assert f"it has become durable: `{place}` names it" in said_of_it
    assert store.verify().problems == []
    assert torpor.json("show", place)["durable"] is True
    # Who asks again hears the same, and who asks by the old name hears the new one.
    assert torpor.json("flush", "count-1")["flushed"] == [{"image": "count-1", "place": place}]
    assert place in torpor("show", "count-1", check=3).stderr.decode()
    torpor("restore", place, "--name", "again")
    goes_on(api.job("again"))
    assert not writers(home)


def test_durable_waits_while_the_job_sleeps_already(torpor: Cli, store: Store, gate: Path) -> None:
    job = counter()
    with torpor.start("checkpoint", "count", "--tier", "dram", "--store", "@", "--durable", "--json") as asking:
        stands(gate)
        eventually(lambda: job.state is JobState.ASLEEP)
        assert asking.poll() is None
        assert store.images() == []
        gate.touch()
        out, err = asking.communicate(timeout=100)
    assert asking.returncode == 0, err
    assert b'"durable": true' in out
    (image,) = store.images()
    assert api.job("count").record.image == f"{image.name}@{store.url}"
    nothing_is_left()
    assert api.restore(image).name == "count"
    goes_on(job, counts(job)[-1])


def test_who_stops_waiting_changes_nothing(torpor: Cli, store: Store, gate: Path) -> None:
    counter()
    with torpor.start("checkpoint", "count", "--tier", "dram", "--store", "@", "--durable") as asking:
        stands(gate)
        eventually(lambda: api.job("count").state is JobState.ASLEEP)
        asking.send_signal(signal.SIGINT)
        _out, err = asking.communicate(timeout=100)
    assert asking.returncode == 130
    assert b"whole in memory, as count-1" in err
    gate.touch()
    torpor("flush")
    assert [image.name for image in store.images()] == ["count-1"]


def test_the_same_in_python(home: Path, store: Store) -> None:
    job = counter()
    image = store.begin_checkpoint(job, leave_running=True)
    assert image.path.parent == paths.dram_dir()
    first = store.flush(image)
    assert first.image.head.name == "count-1"
    goes_on(job, counts(job)[-1])
    second = store.checkpoint(job, leave_running=True, tier="dram")
    assert second.new < first.new
    job.suspend(tier="dram")
    third = store.checkpoint(job, tier="dram")
    assert [one.name for one in store.images()] == ["count-1", "count-2", "count-3"]
    assert api.job("count").record.image == f"count-3@{store.url}"
    nothing_is_left()
    api.restore(store.image(third.image.id))
    goes_on(job, counts(job)[-1])

    # The other way out of memory, into a folder.
    place = home / "elsewhere" / "count-x"
    image = job.checkpoint(to=place, tier="dram")
    assert image.path.parent == paths.dram_dir()
    assert api.open_image(place).path in (image.path, place)
    assert image.flush().place == str(place)
    assert api.job("count").record.image == str(place)
    nothing_is_left()
    durable = api.open_image(place)
    durable.verify()
    assert durable.manifest.tier == "disk"
    assert all(entry.hash for entry in durable.manifest.files)
    assert api.flush(place).place == str(place)
    assert api.restore(durable).name == "count"
    goes_on(job, counts(job)[-1])


def test_memory_alone_is_not_durable(torpor: Cli, home: Path) -> None:
    job = counter()
    assert home.is_dir()
    refused = torpor("checkpoint", "count", "--tier", "dram", "--durable", check=2)
    assert "not durable" in refused.stderr.decode()
    torpor("checkpoint", "count", "--to", str(paths.dram_dir() / "other"), "--durable", check=2)
    said = torpor.json("checkpoint", "count", "--tier", "dram", "--leave-running")
    assert (said["durable"], said["writing"]) == (False, None)
    assert torpor.json("images")[0]["state"] == "in memory"
    torpor("flush", "count-1", check=2)
    assert torpor.json("flush")["flushed"] == []
    said = torpor.json("checkpoint", "count", "--durable")
    assert said["durable"] is True
    assert [image["state"] for image in torpor.json("images")] == ["in memory", "durable"]
    assert job.state is JobState.ASLEEP


def test_a_removed_image_goes_nowhere(torpor: Cli, home: Path, store: Store, gate: Path) -> None:
    job = counter()
    torpor("checkpoint", "count", "--tier", "dram", "--store", "@", "--leave-running")
    stands(gate)
    with pytest.raises(errors.WrongState, match="copy"):
        with store.repository.lock("exclusive", "prune", wait=0.1):
            pass
    torpor("rm", "count-1@")
    assert not writers(home)
    nothing_is_left()
    # The store is as it was, and free.
    store.prune()
    assert (store.images(), list(Path(store.url, "packs").iterdir())) == ([], [])
    goes_on(job, counts(job)[-1])
    gate.touch()
    assert torpor.json("checkpoint", "count", "--tier", "dram", "--store", "@", "--durable")["image"] == "count-1"


@pytest.mark.parametrize("place", ["store", "folder"])
def test_an_image_removed_when_it_had_just_arrived_is_gone_too(
    torpor: Cli, home: Path, store: Store, place: str
) -> None:
    gate = home / "gate"
    start_keeper(home, {"TORPOR_FAULT": f"write image:end=hang:{gate}"})
    counter()
    where = ("--store", "@") if place == "store" else ("--to", str(home / "there"))
    said = torpor.json("checkpoint", "count", "--tier", "dram", *where)
    stands(gate)
    assert store.images() or (home / "there").is_dir()
    torpor("rm", said["image"])
    assert not store.images()
    assert not [*home.glob("there*")]
    nothing_is_left()


def test_without_room_in_memory_it_goes_straight_there(torpor: Cli, home: Path, store: Store) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=68m", "torpor-test", paths.dram_dir()], check=True)
    try:
        counter()
        done = torpor("checkpoint", "count", "--tier", "dram", "--store", "@", "--leave-running", "--json")
        assert "straight to" in done.stderr.decode()
        assert b'"durable": true' in done.stdout
        assert [image.name for image in store.images()] == ["count-1"]
        done = torpor("checkpoint", "count", "--tier", "dram", "--to", str(home / "there"), "--leave-running")
        assert "straight to" in done.stderr.decode()
        api.open_image(home / "there").verify()
        assert store.checkpoint(api.job("count"), tier="dram").image.head.name == "count-2"
        torpor("restore", "count-2@")
        goes_on(api.job("count"))
        api.job("count").kill(signal.SIGKILL)
        eventually(lambda: api.job("count").state is JobState.KILLED)
        torpor("keeper", "stop")
    finally:
        eventually(lambda: subprocess.run(["umount", paths.dram_dir()], check=False).returncode == 0)


def test_variables_are_those_of_whoever_asked(torpor: Cli, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    api.keeper_start("sim")  # which knows no key
    key = home / "a-secret-place"
    url = str(home / "sealed")
    store = api.create_store(url, encrypt=True, key_file=key)
    counter()
    torpor("checkpoint", "count", "--tier", "dram", "--store", url, check=8)
    monkeypatch.setenv("TORPOR_KEY_FILE", str(key))
    torpor(
        "checkpoint", "count", "--tier", "dram", "--store", url, "--limit", "500MB/s", "--leave-running", "--durable"
    )
    assert [image.name for image in store.images()] == ["count-1"]
    log = paths.keeper_log("sim").read_text()
    assert "count-1" in log
    assert str(key) not in log

    # One that cannot be opened in the background says so, until somebody comes who can.
    monkeypatch.setenv("TORPOR_KEY_FILE", str(key))
    gate = home / "gate"
    start_keeper(home, {"TORPOR_FAULT": f"write back=hang:{gate}"})
    torpor("checkpoint", "count", "--tier", "dram", "--store", url)
    stands(gate)
    moved = key.rename(home / "elsewhere")
    gate.touch()
    eventually(lambda: "no key file" in torpor.json("images")[0]["state"])
    monkeypatch.setenv("TORPOR_KEY_FILE", str(moved))
    torpor("flush")
    torpor("restore", f"count-2@{url}")
    goes_on(api.job("count"))
