"""Copies of a program that take turns: who goes when, what fails, what is kept."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from torpor.bench import results, turns
from torpor.bench.results import Measurement
from torpor.bench.settings import CONTROL, NATIVE, Settings

KINDS = (turns.Kind(name="one", ask="one"), turns.Kind(name="two", ask="two", unit="µs", value=turns.microseconds))


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(backend="sim", groups=2, rounds=3, batch=0.001, patience=20.0, scratch=tmp_path)


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], dict[str, list[str]]]:
    """Commands of a native and a control copy of a program: `body` answers one line of `kind, count` with `answer`."""

    def make(body: str) -> dict[str, list[str]]:
        script = tmp_path / "program.py"
        script.write_text(
            "import os, sys, time\nside, log = sys.argv[1:]\nfor line in sys.stdin:\n"
            "    kind, count = line.split()\n    open(log, 'a').write(f'{side} {line}')\n"
            + textwrap.indent(textwrap.dedent(body), "    ")
            + "    print(answer, flush=True)\n"
        )
        return {side: [sys.executable, str(script), side, str(tmp_path / "log")] for side in (NATIVE, CONTROL)}

    return make


def test_sides_take_turns(settings: Settings, program: Any, tmp_path: Path) -> None:
    answer = "answer = {'native': 1000, 'control': 1100}[side] * (1 if kind == 'one' else 7)\n"
    one, two = results.final(turns.compare(program(answer), KINDS, settings))
    assert one.sides[NATIVE] == results.spread([1000, 1000])
    assert two.unit == "µs" and two.sides[CONTROL].median == pytest.approx(7.7)
    assert one.cost == {CONTROL: results.spread([1.1, 1.1])}
    calls = [line.split() for line in (tmp_path / "log").read_text().splitlines()]
    # A microsecond of each: a batch of a millisecond is a thousand, asked of all sides alike.
    assert {int(count) for _, kind, count in calls[-16:] if kind == "one"} == {1000}
    turns_taken = [(side, kind) for side, kind, _ in calls][-16:]  # a warm-up and three turns of each kind
    sides = [NATIVE, CONTROL, NATIVE, CONTROL, CONTROL, NATIVE, CONTROL, NATIVE]
    assert turns_taken == [(side, kind) for kind in ("one", "two") for side in sides]


def test_every_side_has_every_place_as_often() -> None:
    three = ["".join(turns.order("NTC", turn)) for turn in range(6)]
    assert three == ["NTC", "TCN", "CNT", "CTN", "NCT", "TNC"]
    assert ["".join(turns.order("NC", turn)) for turn in range(-1, 5)] == ["NC", "NC", "CN", "CN", "NC", "NC"]


@pytest.mark.parametrize(
    ("siblings", "count", "chosen"),
    [
        (["0-1", "0-1", "2-3", "2-3", "4-5", "4-5", "6-7", "6-7"], 2, [4, 6]),
        (["0,2", "1,3", "0,2", "1,3"], 2, [0, 1]),
        (["0-1", "0-1", "2-3", "2-3"], 3, [0, 2, 1]),
        (["0-1", "0-1"], 8, [0, 1]),
        ([None, None, None, None], 1, [2]),
    ],
)
def test_copies_with_two_threads_have_two_cores(
    siblings: list[str | None], count: int, chosen: list[int], tmp_path: Path
) -> None:
    for number, listed in enumerate(siblings):
        if listed is not None:
            folder = tmp_path / f"cpu{number}" / "topology"
            folder.mkdir(parents=True)
            (folder / "thread_siblings_list").write_text(f"{listed}\n")
    assert turns.apart(range(len(siblings)), count, tmp_path) == chosen


def test_a_kind_that_fails_leaves_the_others_alone(settings: Settings, program: Any) -> None:
    body = "answer = 10.0\nif kind == 'two' and side == 'control': sys.exit('no such kind')\n"
    found: list[Measurement] = []
    with pytest.raises(turns.ProgramFailed, match="the control program ended with 1 in 'two 1'") as caught:
        for measurement in turns.compare(program(body), KINDS, settings):
            found.append(measurement)
    assert caught.value.hint == "no such kind"
    one, two = results.final(found)
    assert [(m.name, set(m.sides)) for m in (one, two)] == [("one", {NATIVE, CONTROL}), ("two", set())]
    assert "ended with 1 in 'two 1'" in two.note


def test_a_program_that_cannot_do_anything(settings: Settings, program: Any, tmp_path: Path) -> None:
    """It is not asked for every kind."""
    kinds = [turns.Kind(name=f"kind{number}", ask=f"kind{number}") for number in range(9)]
    with pytest.raises(turns.ProgramFailed, match="in 'kind0 1'"):
        list(turns.compare(program("sys.exit('no driver')\n"), kinds, settings))
    assert len((tmp_path / "log").read_text().splitlines()) == turns.MOST_FAILURES


@pytest.mark.parametrize(
    ("body", "message", "patience"),
    [
        ("answer = 'nonsense'\n", "answered 'one' with 'nonsense'", 60.0),
        ("time.sleep(60)\nanswer = 1\n", "did not answer 'one 1' within 0.5 s", 0.5),
    ],
    ids=["nonsense", "silence"],
)
def test_nonsense_and_silence(body: str, message: str, patience: float, program: Any, tmp_path: Path) -> None:
    settings = Settings(backend="sim", groups=1, rounds=1, patience=patience, scratch=tmp_path)
    with pytest.raises(turns.ProgramFailed, match=message):
        list(turns.compare(program(body), KINDS, settings))


def test_whole_groups_are_kept_when_one_fails(settings: Settings, program: Any, tmp_path: Path) -> None:
    """The second group's programs end at once: what the first has found is yielded before the error."""
    body = f"""
        answer = 10.0
        if kind == "two" and os.path.exists({str(tmp_path / "stop")!r}): sys.exit(3)
    """
    commands = program(body)

    def say(line: str) -> None:
        if line.startswith("group 2"):
            (tmp_path / "stop").touch()

    found: list[Measurement] = []
    with pytest.raises(turns.ProgramFailed, match="ended with 3"):
        for measurement in turns.compare(commands, KINDS, Settings(**{**vars(settings), "say": say})):
            found.append(measurement)
    assert [(m.name, m.sides[NATIVE].n) for m in found] == [("one", 1), ("two", 1)]
