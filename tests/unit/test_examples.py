"""What hypothesis draws for a test (docs/design/tests.md)."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st


def drawn() -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []

    @settings(derandomize=True, database=None, max_examples=300)
    @given(st.integers(0, 2**32 - 1), st.text())
    def take(number: int, text: str) -> None:
        found.append((number, text))

    take()
    return found


def test_examples_are_the_same_whatever_else_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = drawn()
    file = tmp_path / "constants.py"
    file.write_text("".join(f"ONE_{number} = {number}, 'text {number}'\n" for number in range(10**6, 10**6 + 100)))
    spec = importlib.util.spec_from_file_location("torpor_test_constants", file)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "torpor_test_constants", module)
    assert drawn() == before
