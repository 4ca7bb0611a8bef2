"""Tests wait for what must come true longer than any machine needs (docs/design/tests.md)."""

from __future__ import annotations

import re

import pytest

from tests.conftest import PATIENCE
from tests.layout.test_files import tracked

SHORT = 1.0
"""A limit below it is there to pass: what the test wants is that nothing happens meanwhile."""

LIMIT = re.compile(r"(?:\.(?:join|settimeout|result)\(|\b(?:timeout|seconds)=|\.wait\((?=\d\d))(\d+(?:\.\d+)?)\b")
"""A time limit written as a number; one digit in a `wait` is mostly a number of something else."""

LONG_ENOUGH = 60.0


def impatient(text: str) -> list[str]:
    """The time limits that a slow machine may reach."""
    return [found[0] for found in LIMIT.finditer(text) if SHORT <= float(found[1]) < LONG_ENOUGH]


@pytest.mark.parametrize("line", ["job.wait(30)", "run(x, timeout=10)", "eventually(f, seconds=20.0)", "t.join(5)"])
def test_a_short_limit_is_found(line: str) -> None:
    assert len(impatient(line)) == 1


@pytest.mark.parametrize("line", ["job.wait(100)", "spec(timeout=0.2)", "s.settimeout(0.2)", "wait(limit)"])
def test_others_are_not(line: str) -> None:
    assert impatient(line) == []


def test_no_test_is_impatient() -> None:
    own = "tests/layout/test_patience.py"
    tests = [path for path in tracked() if path.parts[0] == "tests" and path.suffix == ".py" and str(path) != own]
    found = {str(path): impatient(path.read_text()) for path in tests if path.parts[1] != "gpu"}
    assert {path: limits for path, limits in found.items() if limits} == {}
    assert PATIENCE >= LONG_ENOUGH
