"""A job with a variable declared `__managed__`: refused by name, and its next hundred kernels are right."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import torpor
from tests.gpu.conftest import output, wait_for_line
from torpor.errors import Refused

Start = Callable[[list[str]], torpor.Job]
PROGRAM = Path(__file__).parents[1] / "flow" / "managed_variable.py"


@pytest.mark.parametrize("way", ["asked", "unasked", "file", "library"])
def test_refused_and_unharmed(start: Start, tmp_path: Path, way: str) -> None:
    job = start([sys.executable, str(PROGRAM), way, str(tmp_path / "go")])
    wait_for_line(job, "first 8")
    with pytest.raises(Refused, match="variables declared __managed__"):
        job.checkpoint(tier="dram")
    (tmp_path / "go").touch()
    assert job.wait(timeout=60)
    assert output(job) == "first 8\nright\n"


@pytest.mark.parametrize("way", ["none", "unloaded"])
def test_what_is_gone_is_in_nobodys_way(start: Start, tmp_path: Path, way: str) -> None:
    job = start([sys.executable, str(PROGRAM), way, str(tmp_path / "go")])
    wait_for_line(job, "first 8")
    woken = torpor.restore(job.checkpoint(tier="dram"))
    (tmp_path / "go").touch()
    assert woken.wait(timeout=60)
    assert output(woken) == "first 8\nright\n"
