"""The software GPU gives what an H200 gave (docs/simgpu.md, "Conformance")."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import themes
from tests.conformance.comparison import differences
from tests.conformance.known import DIFFERENT, WAITING
from tests.conformance.random_programs import batches
from tests.conformance.runner import Outcomes, run_theme
from tests.native.simgpu.program import environment

RECORDED = Path(__file__).parent / "recorded"
RANDOM = [name for name in themes.names() if name.startswith("random")]
THEMES = [name for name in themes.names() if name not in RANDOM and name != "machine"]
QUICK = 2
"""Batches of random programs that are run each time."""

Run = Callable[..., "Future[Outcomes]"]


@cache
def recording(theme: str) -> dict[str, Any]:
    """Outcomes by case, without those that wait to be recorded again."""
    file = RECORDED / f"{theme}.json"
    cases = json.loads(file.read_text())["cases"] if file.exists() else {}
    return {name: outcome for name, outcome in cases.items() if f"{theme}/{name}" not in WAITING}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Run]:
    """Starts a theme on the software GPU. Those that tests will ask for are started ahead, two at a time."""
    pool, started = ThreadPoolExecutor(2), {}

    def begin(theme: str, *cases: str) -> Future[Outcomes]:
        if (theme, *cases) not in started:
            env = environment(tmp_path_factory.mktemp("machine"))
            started[theme, *cases] = pool.submit(run_theme, theme, env, cases=cases)
        return started[theme, *cases]

    ours = [item for item in request.session.items if item.name.startswith("test_as_recorded[")]
    asked = {item.callspec.params["theme"] for item in ours}  # type: ignore[attr-defined]
    for theme in sorted(asked, key=lambda name: -sum(case.alone for case in themes.of_theme(name))):  # longest first
        begin(theme)
    yield begin
    pool.shutdown(cancel_futures=True)


def check(theme: str, found: Outcomes) -> None:
    forms = {case.name: case.form for case in themes.of_theme(theme)}
    told = {}
    for name, outcome in found.items():
        if f"{theme}/{name}" in WAITING:
            told[name] = [outcome["failed"]] if "failed" in outcome else []
        else:
            told[name] = differences(forms[name], recording(theme)[name], outcome)
    told = {name: _unknown(theme, name, lines) for name, lines in told.items()}
    wrong = {name: lines for name, lines in told.items() if lines}
    assert not wrong, "\n".join(f"{theme}/{name}\n    " + "\n    ".join(lines) for name, lines in wrong.items())


def _unknown(theme: str, name: str, lines: list[str]) -> list[str]:
    """Differences that are not accounted for; one that is accounted for and not there any more is one as well."""
    known = DIFFERENT.get(f"{theme}/{name}", {})
    left = [line for line in lines if not any(line.startswith(what) for what in known)]
    gone = [what for what in known if not any(line.startswith(what) for line in lines)]
    return left + [f"no longer different: {what}" for what in gone]


@pytest.mark.parametrize("theme", THEMES)
def test_as_recorded(run: Run, theme: str) -> None:
    check(theme, run(theme).result())


def test_random_programs_as_recorded(run: Run) -> None:
    quick = [case.name for case in themes.of_theme(RANDOM[0])][:QUICK]
    check(RANDOM[0], run(RANDOM[0], *quick).result())


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("theme", RANDOM)
def test_all_random_programs_as_recorded(run: Run, theme: str) -> None:
    check(theme, run(theme).result())


def test_recordings_are_complete() -> None:
    """Made on real hardware, every case of the set that does not wait, and none that failed."""
    recorded = {theme: recording(theme) for theme in (*THEMES, *RANDOM)}
    found = {f"{theme}/{name}" for theme, outcomes in recorded.items() for name in outcomes}
    wanted = {f"{case.theme}/{case.name}" for case in themes.all_cases() if case.theme != "machine"}
    assert found == wanted - set(WAITING)
    assert set(WAITING) <= wanted
    assert [name for outcomes in recorded.values() for name, one in outcomes.items() if "failed" in one] == []
    assert len(found) >= 150
    assert batches.THEMES * batches.BATCHES * batches.BATCH >= 500
    machines = {json.loads(file.read_text())["machine"]["gpu"] for file in RECORDED.iterdir()}
    assert machines == {"NVIDIA H200"}
    assert sum(file.stat().st_size for file in RECORDED.iterdir()) < 2 << 20
