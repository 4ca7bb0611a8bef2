"""Scripts of bench/ that are broken off: what they know is told, and nothing is left of their jobs."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY
from torpor import api
from torpor.bench import results, turns
from torpor.bench.results import Measurement
from torpor.bench.settings import CONTROL, NATIVE, TORPOR


@pytest.fixture(autouse=True)
def neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(REPOSITORY / "bench"))


def left_in(home: Path) -> list[str]:
    memory = Path(os.environ["TORPOR_DRAM"])
    return [path.name for path in [*home.glob("*bench-*"), *memory.parent.glob(f"{memory.name}-bench-*")]]


def test_help_has_the_first_line_as_it_stands() -> None:
    told = import_module("script").options("Question: how much?  Target: within 1 %.\n\nMore.").format_help()
    assert "Target: within 1 %." in told and "More" not in told


@pytest.mark.parametrize("turn", [1, 2])
def test_pools_leaves_no_job(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turn: int) -> None:
    pools = import_module("pools")
    out, ran = tmp_path / "out.json", []

    def cycle(_kind: str, _gib: float) -> tuple[float, float, int]:
        ran.append(api.run(["sleep", "1000"]))
        if len(ran) == 2 * turn:
            raise KeyboardInterrupt
        return 1.0, 1.0, 0

    monkeypatch.setattr(pools, "cycle", cycle)
    monkeypatch.setattr(sys, "argv", ["pools", "--gib", "0.01", "--kinds", "alloc", "--repeat", "9", "--out", str(out)])
    with pytest.raises(KeyboardInterrupt):
        pools.main()
    assert out.exists() == (turn == 2)
    assert turn == 1 or [one["kind"] for one in json.loads(out.read_text())["kinds"]] == ["alloc"]
    assert api.jobs() == [] and left_in(home) == []


def test_one_call_tells_of_every_process(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one_call = import_module("one_call")
    out = tmp_path / "out.json"
    words = ["one_call", "--ways", "native,answers,kernels", "--turns", "2", "--calls", "50", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", words)
    one_call.main()
    times = json.loads(out.read_text())["ns"]
    assert [(way, len(found)) for way, found in times.items()] == [("native", 2), ("answers", 2), ("kernels", 2)]
    assert all(one > 0 for found in times.values() for one in found)
    shown = [line.split(" | ")[0] for line in capsys.readouterr().out.splitlines()]
    assert shown == ["| ns for `mark`", "| ---", "| native", "| answers", "| kernels"]
    monkeypatch.setattr(sys, "argv", ["one_call", "--call", "nothing", "--ways", "answers"])
    with pytest.raises(SystemExit, match="answers: `"):
        one_call.main()
    assert api.jobs() == [] and left_in(home) == []


def test_overhead_tells_what_it_knows(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also of a kind that is left out, which has no ratios; and the error is the program's own."""
    overhead = import_module("overhead")

    def compare(_command: Any, kinds: list[turns.Kind], *_: Any) -> Iterator[Measurement]:
        api.run(["sleep", "1000"])
        ratios = {TORPOR: results.spread([1.5]), CONTROL: results.spread([1.0])}
        yield Measurement(name=kinds[0].name, unit="ns", sides={NATIVE: results.spread([10.0])}, cost=ratios)
        yield Measurement(name=kinds[1].name, unit="ns", sides={}, note="left out: it ended with 1")
        raise turns.ProgramFailed("it ended with 1")

    monkeypatch.setattr(turns, "compare", compare)
    out = tmp_path / "out.json"
    monkeypatch.setattr(sys, "argv", ["overhead", "--kinds", "calls", "--out", str(out)])
    with pytest.raises(turns.ProgramFailed):
        overhead.main()
    rows = capsys.readouterr().out.splitlines()[2:]
    assert rows == ["| launch | 10.0 | 1.500 | 1.000 |", "| copy_in_8B | left out: it ended with 1 |  |  |"]
    assert list(json.loads(out.read_text())["overhead"]) == ["launch", "copy_in_8B"]
    assert api.jobs() == [] and left_in(home) == []
