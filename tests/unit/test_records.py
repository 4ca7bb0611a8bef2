"""Job records: names, atomic replacement, and the state that follows from record, supervisor and exit."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torpor import paths, records
from torpor.errors import NotFound, TorporError, UsageError
from torpor.records import JobRecord, JobState


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORPOR_HOME", str(tmp_path / "home"))


@pytest.fixture
def living() -> Iterator[int]:
    """The pid of a process that lives as long as the test."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process.pid
        process.kill()


def made(**facts: object) -> JobRecord:
    name = records.claim(None, ["prog"])
    record = JobRecord(name=name, command=["prog"], cwd="/", backend="sim", **facts)  # type: ignore[arg-type]
    records.save(record)
    return record


def write_exit(record: JobRecord, **facts: object) -> None:
    paths.job_exit(record.name).write_text(json.dumps(facts))


def test_a_record_comes_back_as_saved() -> None:
    record = made(env={"A": "1"}, gpus=["0", "1"], arena=False, supervisor_pid=4, supervisor_start=5, image="/i")
    assert records.load(record.name) == record
    assert records.every() == [record]


@pytest.mark.parametrize("name", ["", ".hidden", "a/b", "-x", "x" * 64, "image.partial", "a b", "ä", "a\n"])
def test_bad_names_are_refused(name: str) -> None:
    with pytest.raises(UsageError):
        records.check_name(name)


@given(st.text(max_size=80))
def test_a_good_name_stays_within_its_folder(name: str) -> None:
    try:
        records.check_name(name)
    except UsageError:
        return
    assert Path("/jobs", name).resolve() == Path("/jobs") / name


@pytest.mark.parametrize(
    ("command", "stem"),
    [
        (["./train"], "train"),
        (["/usr/bin/python3.11", "-u", "work/train.py", "--lr=0.1"], "train"),
        (["python", "-c", "print()"], "python"),
        (["bash", "-c", "sleep 1"], "bash"),
        (["my prog!"], "my-prog"),
        (["..."], "job"),
    ],
)
def test_a_default_name_says_what_runs(command: list[str], stem: str) -> None:
    assert records.claim(None, command) == f"{stem}-1"
    assert records.claim(None, command) == f"{stem}-2"


def test_a_taken_name_is_refused() -> None:
    records.claim("mine", ["a"])
    with pytest.raises(UsageError, match="exists"):
        records.claim("mine", ["a"])


def test_missing_and_broken_records_are_told_apart() -> None:
    with pytest.raises(NotFound):
        records.load("nobody")
    record = made()
    paths.job_record(record.name).write_text("{")
    with pytest.raises(TorporError, match="not a job record"):
        records.load(record.name)


def test_a_full_disk_has_room_for_a_record_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_more: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    record = made()
    monkeypatch.setattr(tempfile, "mkstemp", full)
    for image in ("/a/long/name", None):
        record.image = image
        records.save(record)
        assert records.load(record.name) == record
    record.image = "x" * 100_000
    with pytest.raises(OSError, match="No space"):
        records.save(record)
    assert records.load(record.name).image is None


def test_a_failed_write_leaves_the_old_record(monkeypatch: pytest.MonkeyPatch) -> None:
    record = made()
    before = paths.job_record(record.name).read_bytes()

    def full(_fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    record.state = JobState.RUNNING
    with pytest.raises(OSError, match="No space"):
        records.save(record)
    assert paths.job_record(record.name).read_bytes() == before
    assert [path.name for path in paths.job_dir(record.name).iterdir()] == ["job.json"]


@pytest.mark.parametrize("state", [JobState.RUNNING, JobState.SUSPENDED, JobState.CHECKPOINTING])
def test_a_live_state_counts_while_the_supervisor_lives(living: int, state: JobState) -> None:
    record = made(state=state, supervisor_pid=living, supervisor_start=records.process_start(living))
    assert records.state(record) is state


def test_a_reused_pid_is_not_the_supervisor(living: int) -> None:
    start = records.process_start(living)
    assert start is not None
    record = made(state=JobState.RUNNING, supervisor_pid=living, supervisor_start=start - 1)
    assert records.state(record) is JobState.LOST


def test_a_zombie_is_not_alive() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert records.process_start(process.pid) is None
    process.wait()
    assert records.process_start(process.pid) is None


def test_the_end_is_read_from_the_exit_record(living: int) -> None:
    record = made(state=JobState.RUNNING, supervisor_pid=living, supervisor_start=records.process_start(living))
    write_exit(record, exit_code=3, signal=None, ended=1.0)
    assert records.state(record) is JobState.EXITED
    write_exit(record, exit_code=None, signal=9, ended=1.0)
    assert records.state(record) is JobState.KILLED


def test_a_dumped_job_waits_for_its_image_and_is_lost_without(living: int) -> None:
    record = made(state=JobState.CHECKPOINTING, supervisor_pid=living)
    write_exit(record, exit_code=None, signal=9, ended=time.time(), checkpointed=True)
    assert records.state(record) is JobState.CHECKPOINTING
    write_exit(record, exit_code=None, signal=9, ended=time.time() - records.COMMIT_SECONDS - 1, checkpointed=True)
    assert records.state(record) is JobState.LOST


def test_asleep_outlives_the_supervisor() -> None:
    record = made(state=JobState.ASLEEP, supervisor_pid=1 << 22)
    write_exit(record, exit_code=None, signal=9, ended=1.0, checkpointed=True)
    assert records.state(record) is JobState.ASLEEP


def test_a_start_that_never_came_to_anything_is_lost() -> None:
    record = made()
    assert records.state(record) is JobState.STARTING
    record.created -= 3600
    assert records.state(record) is JobState.LOST
