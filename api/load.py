"""Puts the API data together: every exported symbol once, with its signature, family, door and versions."""

from __future__ import annotations

import importlib
from functools import cache
from pathlib import Path

from api.families import NAMES, family_of
from api.model import Answer, Function


@cache
def functions() -> tuple[Function, ...]:
    """All exported symbols of the described driver, in alphabetical order."""
    found: list[Function] = []
    for family in NAMES:
        found += importlib.import_module(f"api.seed.functions_{family}").FUNCTIONS
    return tuple(sorted(found, key=lambda function: function.name))


@cache
def exported_symbols() -> tuple[str, ...]:
    """The symbols that a real driver 580 exports, as read from it (`api/exports_580.txt`)."""
    lines = Path(__file__).with_name("exports_580.txt").read_text().splitlines()
    return tuple(line for line in lines if line and not line.startswith("#"))


@cache
def answers() -> dict[str, tuple[Answer, ...]]:
    """Base name -> what `cuGetProcAddress` picks, oldest version first."""
    from api.seed.answers import ANSWERS

    return ANSWERS


def family(symbol: str) -> str:
    """The family of an exported symbol."""
    return family_of(symbol)
