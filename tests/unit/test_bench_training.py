"""The training part, on the software GPU: same work on every side, and a copy that differs is noticed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from torpor.bench import models, training, turns
from torpor.bench.settings import CONTROL, NATIVE, TORPOR, Settings
from torpor.errors import TorporError

TINY = {"groups": 1, "rounds": 1, "batch": 0.001, "quick": True, "models": ("toy",)}


def test_an_iteration_by_size_and_over_time(home: Path) -> None:
    del home
    found = list(training.run(Settings(backend="sim", **TINY)))
    assert [one.name for one in found] == [
        "toy parameters", *(f"toy parameters, turn {turn}" for turn in range(1, 5)), "toy parameters over time"
    ]  # fmt: skip
    for one in found:
        assert set(one.sides) == {NATIVE, TORPOR, CONTROL}
        assert all(side.median > 0 for side in one.sides.values())
        assert set(one.cost) == {TORPOR, CONTROL}
    assert found[0].x == pytest.approx(models.TOY_GPT["toy"].parameters / 1e6, rel=0.01)
    assert [one.x for one in found[1:5]] == sorted(one.x or 0 for one in found[1:5])
    assert "same loss" in found[-1].note


def test_copies_that_learn_something_else_are_noticed() -> None:
    settings = Settings(backend="sim", **TINY)
    command = models.command("train.py", models.TOY_GPT["toy"], settings)
    with (
        turns.Copy(command, NATIVE, settings) as one,
        turns.Copy(command, CONTROL, settings) as same,
        turns.Copy([*command, "--seed", "2"], CONTROL, settings) as other,
    ):
        one.batch("step", 3)
        same.batch("step", 1)
        other.batch("step", 3)
        training._same_losses({NATIVE: one, CONTROL: same})
        assert re.fullmatch("3 0x[0-9a-f]{8}", same.ask("loss 1"))
        with pytest.raises(TorporError, match="different losses after 3 steps"):
            training._same_losses({NATIVE: one, CONTROL: other})


def test_what_does_not_fit_is_left_out_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "free_memory", lambda _: 30 << 30)
    monkeypatch.setattr(turns, "compare", lambda *_, **__: iter(()))
    found = list(training.run(Settings(backend="gpu", models=("120m", "760m", "1b"), batch=1.0, groups=0)))
    reasons = {one.name: one.note for one in found}
    assert set(reasons) == {"120m parameters", "760m parameters", "1b parameters"}
    said = r"left out: three copies need [\d.]+ GiB, 30.0 GiB are free"
    assert all(re.match(said, note) for note in reasons.values())
