"""Jobs with variables declared `__managed__`: named before anything is touched, whichever way they came."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import eventually
from tests.flow import walking
from torpor import api, errors
from torpor.records import JobState

pytestmark = pytest.mark.criu

PROGRAM = Path(__file__).with_name("managed_variable.py")

Start = Callable[..., api.Job]


@pytest.fixture
def start(home: Path, tmp_path: Path) -> Start:
    del home

    def begin(way: str, managed: str = "driver") -> api.Job:
        argv = [sys.executable, str(PROGRAM), way, str(tmp_path / "go")]
        job = api.run(argv, name="variable", gpu="sim", managed=managed)  # type: ignore[arg-type]
        eventually(lambda: "first 8" in walking.output(job) or job.state is not JobState.RUNNING)
        return job

    return begin


@pytest.mark.parametrize(
    ("way", "managed"),
    [("asked", "driver"), ("asked", "host"), ("unasked", "driver"), ("file", "driver"), ("library", "driver")],
)
def test_it_is_named_and_the_job_computes_on(start: Start, home: Path, tmp_path: Path, way: str, managed: str) -> None:
    job = start(way, managed)
    before = walking.traces(home)
    for verb in (job.checkpoint, job.suspend):
        with pytest.raises(errors.Refused, match="variables declared __managed__") as caught:
            verb()
        assert caught.value.details["resource"] == "managed_variables"
        assert "__device__" in str(caught.value.hint)
        assert walking.traces(home) == before
    (tmp_path / "go").touch()
    assert walking.finish(job) == ["first 8", "right"]


@pytest.mark.parametrize("way", ["none", "unloaded"])
def test_what_is_not_there_or_gone_is_in_nobodys_way(start: Start, tmp_path: Path, way: str) -> None:
    job = start(way)
    woken = api.restore(job.checkpoint())
    (tmp_path / "go").touch()
    assert walking.finish(woken) == ["first 8", "right"]
