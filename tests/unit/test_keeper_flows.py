"""Flows keep off each other, but for who asks when one has been seen to end: it is about to leave, and waited for."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conftest import eventually
from torpor import paths, records
from torpor.errors import WrongState
from torpor.keeper.flows import Flows
from torpor.records import JobRecord, JobState, Unfinished


def begins(flows: Flows, verb: str, *names: str, reads: str | None = None) -> str:
    with flows.begin(verb, *names, reads=reads):
        return verb


def waiting(flows: Flows, begun: Future[str]) -> None:
    eventually(lambda: flows._changed._waiters or begun.done())  # type: ignore[attr-defined]
    assert not begun.done()


def test_one_at_a_time_but_for_readers() -> None:
    flows = Flows()
    with flows.begin("checkpoint", "job", "/image"), flows.begin("restore", reads="/other") as reading:
        assert begins(flows, "restore", reads="/other") == "restore"
        assert flows.busy() == {"job": "checkpoint", "/image": "checkpoint", "/other": "restore"}
        for names, reads in ((("job",), None), (("/image",), None), ((), "/image"), (("/other",), None)):
            with pytest.raises(WrongState, match="under way"):
                begins(flows, "removal", *names, reads=reads)
        reading.ends()
        assert flows.busy(leaving=False) == {"job": "checkpoint", "/image": "checkpoint"}
        with pytest.raises(WrongState, match="job has a checkpoint under way"):
            begins(flows, "removal", "job", "/other")  # waiting for the one would not help it past the other
    assert flows.busy() == {}
    flows.wait_idle()


@pytest.mark.parametrize("state", [JobState.ASLEEP, JobState.RUNNING, JobState.SUSPENDED])
def test_who_sees_how_it_ended_may_begin_the_next(home: Path, state: JobState) -> None:
    del home
    flows = Flows()
    record = JobRecord(name="job", command=["true"], cwd="/", env={}, backend="sim", created=0.0)
    record.unfinished = Unfinished(verb="checkpoint")
    paths.job_dir("job").mkdir(parents=True)
    with ThreadPoolExecutor(2) as threads:
        with flows.begin("checkpoint", "job", "/image"):
            flows.settle(record, state, image="/image")
            seen = records.load("job")
            assert (seen.state, seen.unfinished, seen.image) == (state, None, "/image")
            restoring = threads.submit(begins, flows, "restore", reads="/image")
            saving = threads.submit(begins, flows, "checkpoint", "job")
            waiting(flows, restoring)
            waiting(flows, saving)
        assert (restoring.result(), saving.result()) == ("restore", "checkpoint")


def test_nobody_begins_while_somebody_glances() -> None:
    flows = Flows()
    with ThreadPoolExecutor(1) as threads, ExitStack() as glances:
        assert glances.enter_context(flows.glance("job")) is None
        begun = threads.submit(begins, flows, "suspend", "job")
        waiting(flows, begun)
        glances.close()
        assert begun.result() == "suspend"
    with flows.begin("suspend", "job"), flows.glance("job") as verb:
        assert verb == "suspend"
