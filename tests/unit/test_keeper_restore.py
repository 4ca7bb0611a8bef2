"""What a restore takes for the end of the job that it wakes."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest

from tests.conftest import eventually
from torpor import records
from torpor.keeper import restore
from torpor.process import tree


class SlowSupervisor:
    """Still says `running`, as one that has not heard of the root's end, and records the end after that."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.state = "running"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        pass

    def info(self) -> Self:
        if self._folder.joinpath("asked").exists():
            self._folder.joinpath("exit.json").write_text('{"exit_code": 0}')
        self._folder.joinpath("asked").touch()
        return self


@pytest.fixture
def woken(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[records.JobRecord]:
    """A job whose root is a child of this process, which is its supervisor."""
    del home
    monkeypatch.setattr(restore, "SupervisorClient", SlowSupervisor)
    name = records.claim("woken", [])
    with subprocess.Popen(["sleep", "1000"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as root:
        try:
            pids = {"supervisor_pid": os.getpid(), "root": root.pid}
            yield records.JobRecord(name=name, command=[], cwd="/", backend="sim", **pids)
        finally:
            root.kill()


def test_one_that_lives_has_not_ended(woken: records.JobRecord) -> None:
    assert restore._ended_by_itself(woken) is None


def test_the_end_counts_before_the_supervisor_has_heard_of_it(woken: records.JobRecord) -> None:
    assert woken.root is not None
    os.kill(woken.root, signal.SIGTERM)
    eventually(lambda: tree.host_pid(os.getpid(), woken.root or 0) is None)
    ended = restore._ended_by_itself(woken)
    assert ended is not None
    assert ended.exit_code == 0
