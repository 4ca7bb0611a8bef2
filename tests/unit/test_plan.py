"""The plan's closed forms against a simulation that does not share them, its limits, and the verb."""

from __future__ import annotations

import math
from contextlib import suppress
from pathlib import Path

import pytest

from tests.conftest import Cli
from torpor import plan
from torpor.plan import SECOND, Conditions, Way

FAST, SLOW = Way("fast", 2 * SECOND, 60 * SECOND), Way("slow", 600 * SECOND, 1800 * SECOND)


@pytest.mark.parametrize("way", [FAST, SLOW], ids=lambda way: way.name)
@pytest.mark.parametrize("announced", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("between", [2.0, 100.0])
def test_the_simulation_agrees(way: Way, announced: float, between: float) -> None:
    conditions = Conditions(between, announced)
    for interval in (0.2, 1.0, 3.0):
        found = plan.simulate(way, conditions, interval, runs=30, failures=3000)
        assert abs(found.lost_share - plan.lost_share(way, conditions, interval)) < 5 * found.error
        assert found.error < 0.01


@pytest.mark.parametrize("way", [FAST, SLOW], ids=lambda way: way.name)
@pytest.mark.parametrize("between", [0.5, 8.0, 1000.0])
def test_no_interval_is_better_than_the_best(way: Way, between: float) -> None:
    conditions = Conditions(between)
    chosen = plan.best(way, conditions)
    for _, share in plan.curve(way, conditions):
        assert chosen.lost_share <= share + 1e-12
    # Daly's form is that of the same model, to a higher order than Young's.
    assert chosen.interval == pytest.approx(plan.daly(way, conditions), rel=0.02)
    if way.cost < between / 100:
        assert chosen.interval == pytest.approx(plan.young(way, conditions), rel=0.1)


def test_known_values() -> None:
    """Young, 1974: C = 2 s and M = 8 h give sqrt(2 * 2 * 28800) s."""
    assert plan.young(FAST, Conditions(8.0)) / SECOND == pytest.approx(math.sqrt(4 * 28800))
    assert plan.daly(Way("dear", 20.0, 1.0), Conditions(5.0)) == 5.0
    # Nothing costs anything: only the work since the last checkpoint is lost, half an interval for each failure.
    free = Way("free", 1e-12, 0.0)
    assert plan.lost_share(free, Conditions(100.0), 1.0) == pytest.approx(0.005, rel=0.01)
    # One hour of work, a failure every hour on average, no restart: e - 1 hours are needed.
    assert plan.lost_without(0.0, Conditions(1.0), 1.0) == pytest.approx(1 - 1 / (math.e - 1))
    assert plan.lost_without(0.1, Conditions(1.0), 5000.0) == 1.0


def test_a_warning_saves_the_work() -> None:
    told, untold = (plan.best(FAST, Conditions(5.0, announced)) for announced in (0.8, 0.0))
    assert told.lost_share < untold.lost_share
    assert told.interval > untold.interval


def test_bunches_are_simulated() -> None:
    """With the same mean, failures in bunches cost less where checkpoints are dear: quiet times are long."""
    steady, bunched = (plan.simulate(SLOW, Conditions(8.0, shape=shape), 3.0) for shape in (1.0, 0.5))
    assert abs(steady.lost_share - bunched.lost_share) > 10 * (steady.error + bunched.error)


def test_the_verb(torpor: Cli, tmp_path: Path) -> None:
    known = ("--checkpoint", "2", "--restore", "1", "--detect", "59", "--rate", "3")
    told = torpor.json("plan", *known, "--size", "30", "--keep", "2", "--price", "0.5", "--length", "100")
    [way] = told["ways"]
    assert way["interval_seconds"] == pytest.approx(plan.best(FAST, Conditions(8.0)).interval / SECOND)
    assert way["storage_per_day"] == pytest.approx(1.0)
    assert way["restart_seconds"] == pytest.approx(60)
    assert told["without_lost_share"] > 0.9
    assert told["assumptions"]
    own = ("--app-checkpoint", "30", "--app-restore", "90", "--size", "30", "--price", "0.5")
    for its, costs in ((), 0.5), (("--app-size", "6"), 0.1):
        assert torpor.json("plan", *known, *own, *its)["ways"][1]["storage_per_day"] == pytest.approx(costs)
    picture = tmp_path / "plan.png"
    both = (*known, "--app-checkpoint", "30", "--app-restore", "90")
    text = torpor("plan", *both, "--plot", str(picture)).stdout.decode()
    assert [line.split()[0] for line in text.splitlines()[:3]] == ["WAY", "torpor", "application"]
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        (("--restore", "1", "--rate", "3"), "--checkpoint"),
        (("--checkpoint", "1", "--rate", "3"), "--restore"),
        (("--checkpoint", "1", "--restore", "1"), "--mtbf"),
        (("--checkpoint", "1", "--restore", "1", "--rate", "3", "--mtbf", "8"), "--mtbf and --rate"),
        (("--checkpoint", "1", "--restore", "1", "--rate", "3", "--plot", "/nowhere/a.png"), "/nowhere is no folder"),
        (("--checkpoint", "1", "--restore", "1", "--rate", "3", "--app-restore", "9"), "--app-checkpoint"),
        (("--checkpoint", "1", "--restore", "1", "--rate", "3", "--app-size", "9"), "--app-checkpoint"),
        (("--checkpoint", "0", "--restore", "1", "--rate", "3"), "checkpoint"),
        (("--checkpoint", "1", "--restore", "1", "--rate", "-3"), "rate"),
        (("--checkpoint", "1", "--restore", "1", "--mtbf", "0.003"), "--mtbf is in hours"),
        (("--checkpoint", "1", "--restore", "120", "--mtbf", "0.03", "--shape", "5"), "--mtbf is in hours"),
        (("--checkpoint", "1", "--restore", "1e9", "--mtbf", "0.001", "--shape", "0.2"), "--mtbf is in hours"),
    ],
)
def test_what_is_missing_or_makes_no_sense(torpor: Cli, given: tuple[str, ...], missing: str) -> None:
    assert missing in torpor("plan", *given, check=2).stderr.decode()


def test_an_image_gives_its_figures(torpor: Cli) -> None:
    assert b"nowhere" in torpor("plan", "--image", "nowhere", "--restore", "1", "--rate", "3", check=3).stderr


def test_a_picture_that_finds_no_room_leaves_what_was(torpor: Cli, small_tmpfs: Path) -> None:
    picture = small_tmpfs / "plan.png"
    picture.write_bytes(b"before")
    with suppress(OSError), (small_tmpfs / "fill").open("wb", buffering=0) as fill:
        while fill.write(bytes(1 << 20)):
            pass
    words = ("plan", "--checkpoint", "1", "--restore", "1", "--rate", "3", "--plot", str(picture))
    assert f"{picture}: no space left" in torpor(*words, check=6).stderr.decode()
    assert picture.read_bytes() == b"before" and len(list(small_tmpfs.iterdir())) == 2
