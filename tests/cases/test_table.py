"""The table of cases (docs/results/cases.md) names tests that exist, and marks what runs with --full only."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

TABLE = REPOSITORY / "docs" / "results" / "cases.md"
_TEST = re.compile(r"`([\w/]+\.py)(?:::(\w+))?`( †)?")


def rows() -> list[list[str]]:
    lines = [line for line in TABLE.read_text().splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return [row for row in cells if row[0] not in ("case", "---")]


@cache
def functions(file: Path) -> dict[str, ast.FunctionDef]:
    tree = ast.parse(file.read_text())
    return {
        node.name: node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def is_full(node: ast.FunctionDef) -> bool:
    return any(ast.unparse(mark) == "pytest.mark.full" for mark in node.decorator_list)


def test_there_is_a_row_for_each_reported_kind() -> None:
    assert len(rows()) >= 33
    assert all(len(row) == 3 and all(row) for row in rows())
    assert len({row[0] for row in rows()}) == len(rows())


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0][:40])
def test_each_row_names_tests_that_exist(row: list[str]) -> None:
    named = _TEST.findall(row[2])
    assert named
    for path, name, marked in named:
        file = REPOSITORY / "tests" / path
        assert file.is_file(), path
        if name:
            assert name in functions(file), f"{path} has no {name}"
            assert is_full(functions(file)[name]) == bool(marked), f"{path}::{name}: † or no †"
        else:
            assert functions(file), path
