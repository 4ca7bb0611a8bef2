"""Results of `torpor bench` as tests need them: made, not measured."""

from __future__ import annotations

from typing import Any

import pytest

from torpor.bench import results
from torpor.bench.results import Figure, Measurement, PartResult, Results
from torpor.cli import main as cli_main

MACHINE = {"gpu": "H1000, 9 MiB", "processors": "2 of 2", "memory": "4 GiB", "kernel": "6.1", "torpor": "0.1.0"}


def measured(
    name: str = "launch", *, native: float = 10.0, cost: tuple[float, ...] = (1.0,), **more: Any
) -> Measurement:
    """A measurement with these ratios of Torpor, a still control, and a bar of 1 %."""
    given: dict[str, Any] = {
        "unit": "ns",
        "sides": {"native": results.spread([native]), "torpor": results.spread([native * one for one in cost])},
        "cost": {"torpor": results.spread(cost), "control": results.spread([1.0] * len(cost))},
        "bars": [results.within(0.01)],
    }
    return Measurement(name=name, **{**given, **more})


def found_in(*measurements: Measurement, figures: tuple[Figure, ...] = (), **more: Any) -> Results:
    """A run with one part that has these."""
    part = PartResult(name="p", title="The part", status="done", figures=list(figures), measurements=list(measurements))
    given: dict[str, Any] = {
        "command": ["torpor", "bench"],
        "date": "2026-01-01T00:00:00+00:00",
        "backend": "gpu",
        "software_gpu": False,
        "vm": "off",
        "quick": False,
        "machine": MACHINE,
        "parts": [part],
    }
    return Results(**{**given, **more})


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    """What `torpor bench …` prints, on either stream, when it exits with `code`."""
    assert cli_main(["bench", *arguments]) == code
    return "".join(capsys.readouterr())
