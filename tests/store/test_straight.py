"""Checkpoints straight into a bucket: what becomes of job and images when bucket, user or keeper fail."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import msgspec
import pytest

from tests.conftest import PATIENCE, Cli, eventually, start_keeper, stop_keepers
from tests.store.bad_network import BadNetwork, Fault
from tests.store.s3_server import S3Server
from tests.store.test_cycle import COUNTER, counts, passes
from torpor import api, paths, records
from torpor.records import JobState, Unfinished
from torpor.store_handle import Store

pytestmark = pytest.mark.criu


@pytest.fixture
def store(torpor: Cli, s3: S3Server, s3_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """An empty store in a bucket, the one that is meant where none is named, and a job that counts."""
    del s3
    monkeypatch.setenv("TORPOR_STORE", s3_url)
    with api.create_store() as made:
        torpor("run", "-d", "--name", "count", "--", *COUNTER)
        passes(torpor, "count", 5)
        yield made


@pytest.fixture
def network(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[BadNetwork]:
    """The way to the bucket from now on, on which nothing happens yet."""
    made = BadNetwork(s3.endpoint, lambda _line: "none")
    monkeypatch.setenv("AWS_ENDPOINT_URL", made.endpoint)
    yield made
    made.stop()


def goes_on(torpor: Cli, job: str = "count") -> None:
    """It counts, without a gap."""
    passes(torpor, job, counts(torpor, job)[-1] + 3)
    found = counts(torpor, job)
    assert found == list(range(found[0], found[-1] + 1))


def nothing_waits(store: Store) -> None:
    """Neither on this host nor in the store."""
    assert not [*paths.home().rglob("*.partial"), *paths.dram_dir().rglob("*.partial")]
    assert not [*paths.dram_dir().glob(".staged/*")]
    with store.repository.lock("exclusive", "prune", wait=PATIENCE):
        pass


def puts(line: bytes, kind: str) -> bool:
    """Whether a request writes an object of that kind, or a part of one."""
    return line.startswith((b"PUT", b"POST")) and f"/{kind}/".encode() in line


@pytest.mark.parametrize("kind", ["packs", pytest.param("images", marks=pytest.mark.full)])
def test_a_bucket_that_fails_in_the_middle_takes_nothing_from_the_job(
    torpor: Cli, store: Store, network: BadNetwork, kind: str
) -> None:
    times = iter(range(2))

    def at_first(line: bytes) -> Fault:
        return "busy" if puts(line, kind) and next(times, None) is not None else "none"

    # What passes is waited for.
    network.choose = at_first
    torpor("checkpoint", "count", "--store", "@", "--leave-running")
    assert network.seen["busy"] == 2
    goes_on(torpor)
    network.choose = lambda line: "forbid" if puts(line, kind) else "none"
    error = torpor.json("checkpoint", "count", "--store", "@", check=8)["error"]
    assert "no right" in error["message"]
    assert api.job("count").state is JobState.RUNNING
    goes_on(torpor)
    network.choose = lambda _line: "none"
    nothing_waits(store)
    assert [one.name for one in store.images()] == ["count-1"]
    assert store.verify().problems == []
    last = counts(torpor, "count")[-1]
    assert torpor.json("checkpoint", "count", "--store", "@")["image"] == "count-2"
    torpor("restore", "count-2@")
    passes(torpor, "count", last + 3)


def test_who_stops_waiting_for_a_bucket_that_hangs_has_the_job_back_at_once(
    torpor: Cli, store: Store, network: BadNetwork
) -> None:
    reached, over = threading.Event(), threading.Event()

    def choose(line: bytes) -> Fault:
        if puts(line, "packs"):
            reached.set()
            over.wait()
        return "none"

    network.choose = choose
    try:
        with torpor.start("checkpoint", "count", "--store", "@") as asking:
            assert reached.wait(PATIENCE)
            asking.send_signal(signal.SIGINT)
            _out, err = asking.communicate(timeout=PATIENCE)
        assert asking.returncode == 14, err
        goes_on(torpor)
        assert not over.is_set()
        nothing_waits(store)
        assert store.images() == []
    finally:
        over.set()


@pytest.mark.usefixtures("store")
def test_what_opened_a_store_for_a_job_is_forgotten_with_its_checkpoint(torpor: Cli) -> None:
    """Whoever died after the record was saved and before that: it may hold secrets."""
    opening = paths.dram_dir() / ".staged" / f"{paths.home_mark()}-count.opening"
    opening.parent.mkdir(exist_ok=True)
    opening.write_bytes(msgspec.json.encode({"AWS_SECRET_ACCESS_KEY": "x"}))
    stop_keepers(paths.home())
    api.keeper_start("sim")
    eventually(lambda: not opening.exists())
    goes_on(torpor)


@pytest.mark.parametrize("step", [pytest.param("commit:end", marks=pytest.mark.full), "criu end:end"])
def test_a_keeper_that_dies_after_the_commit_leaves_image_and_job(torpor: Cli, store: Store, step: str) -> None:
    start_keeper(paths.home(), {"TORPOR_FAULT": f"{step}=kill", "AWS_ACCESS_KEY_ID": "nobody"})
    torpor("checkpoint", "count", "--store", "@", check=12)
    job = api.job("count")
    if step == "commit:end":  # CRIU was not told to end it
        eventually(lambda: job.state is JobState.RUNNING)
        goes_on(torpor)
    else:
        eventually(lambda: job.state is JobState.ASLEEP and job.record.unfinished is None)
        assert job.record.image == f"count-1@{store.url}"
    assert [one.name for one in store.images()] == ["count-1"]
    assert store.verify().problems == []
    last = counts(torpor, "count")[-1]
    woken = torpor.json("restore", "count-1@")["job"]
    passes(torpor, woken, last + 3 if step != "commit:end" else 5)
    nothing_waits(store)


@pytest.mark.parametrize("arrived", [True, False])
def test_a_job_that_died_with_its_keeper_sleeps_if_its_image_has_arrived(
    torpor: Cli, store: Store, monkeypatch: pytest.MonkeyPatch, arrived: bool
) -> None:
    torpor("checkpoint", "count", "--store", "@", "--leave-running")
    (image,) = store.images()
    job = api.job("count")
    job.kill(signal.SIGKILL)
    eventually(lambda: job.state is JobState.KILLED)
    stop_keepers(paths.home())
    # As it is left where a host dies between the commit and CRIU's end of the job.
    record = job.record
    identity = image.id if arrived else "0" * 64
    record.state = JobState.CHECKPOINTING
    record.unfinished = Unfinished(
        verb="checkpoint", image="/nowhere", stored=f"count-1@{store.url}", proof=f"images/{identity}"
    )
    records.save(record)
    opening = paths.dram_dir() / ".staged" / f"{paths.home_mark()}-count.opening"
    opening.write_bytes(msgspec.json.encode(store.opening()))
    with monkeypatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "nobody")
        api.keeper_start("sim")
    eventually(lambda: job.state and job.record.unfinished is None)
    assert job.state is (JobState.ASLEEP if arrived else JobState.KILLED)
    eventually(lambda: not opening.exists())  # once the record is saved
    if arrived:
        torpor("restore", "count-1@")
        goes_on(torpor)
