"""The application part, on the software GPU: saved by itself and by Torpor, with the same losses afterwards."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from torpor import api
from torpor.bench import application, models, results
from torpor.bench.application import Saved, Step, frozen
from torpor.bench.settings import Settings
from torpor.errors import TorporError


@pytest.mark.criu
def test_what_both_cost(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    restore = api.restore

    def late(*given: Any, **options: Any) -> api.Job:
        time.sleep(0.3)
        return restore(*given, **options)

    monkeypatch.setattr(api, "restore", late)
    rows = results.final(application.run(Settings(backend="sim", quick=True, repeats=1, scratch=tmp_path)))
    assert [row.name for row in rows] == [
        f"toy, {what}"
        for what in (
            "time frozen",
            "complete after",
            "size",
            "training again after",
            "work lost at equal cost",
            "time lost a day",
        )
    ]
    for row in rows:
        assert set(row.sides) == {"own file", "torpor disk", "torpor dram, then disk", "torpor dram"}
    assert all(side.median > 0 for row in rows[1:4] for side in row.sides.values())
    assert all(rows[3].sides[side].median > 0.3 for side in application.WAYS)
    toy = models.TOY_GPT["toy"]
    size = rows[2].sides["own file"].median * 1e9
    assert toy.layers * toy.width**2 * 4 < size < toy.layers * toy.width**2 * 4 + 10
    assert list(tmp_path.iterdir()) == []
    assert not any((home / "jobs").iterdir())


def test_a_job_that_goes_on_with_other_losses_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    losses: dict[int, str] = {}
    chosen = Settings(backend="sim", scratch=tmp_path)
    for _ in range(2):
        application._by_itself("file", models.TOY_GPT["toy"], chosen, Saved(), losses)
    assert len(losses) >= application.WARM + application.USUAL_STEPS + application.AFTER
    real = models.command
    monkeypatch.setattr(models, "command", lambda *given: [*real(*given), "--seed", "2"])
    with pytest.raises(TorporError, match="the loss of step 1 is"):
        application._by_itself("file", models.TOY_GPT["toy"], chosen, Saved(), losses)


def test_time_frozen_is_what_steps_took_longer() -> None:
    at, steps = 0, []
    for number in range(1, 30):
        at += {1: 90, 11: 35, 12: 15}.get(number, 10)  # the first is slow, and the two around the checkpoint
        steps.append(Step(number, "", at))
    begun, ended = steps[9].at + 1, steps[10].at + 12
    assert frozen(steps, begun, ended) == pytest.approx((25 + 5) / 1e9)
    assert frozen(steps, steps[14].at, steps[15].at) == 0


def test_more_time_frozen_loses_more() -> None:
    short, long = Saved(frozen=[1.0], again=[5.0]), Saved(frozen=[10.0], again=[5.0])
    [less], [more] = application._lost_a_day(short), application._lost_a_day(long)
    assert 0 < less < more
    # Young: sqrt(2 C M) of work between checkpoints; C lost in each, and half of an interval in each of three failures.
    assert less == pytest.approx(24 * 60 * (2 / (8 * 3600)) ** 0.5, rel=0.05)
