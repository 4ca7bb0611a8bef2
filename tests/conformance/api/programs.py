"""API programs: functions that call the driver and note what it answers."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tests.conformance import gpu
from tests.conformance.case import Case, Outcome


class Notes:
    """What a program found out, in its order."""

    def __init__(self) -> None:
        self.lines: list[list[Any]] = []

    def __call__(self, what: str, value: Any) -> None:
        self.lines.append([what, value.hex() if isinstance(value, bytes | bytearray) else value])

    def status(self, name: str, *args: Any, what: str = "") -> None:
        """Notes what the call returns."""
        self(what or name, gpu.status(name, *args))


Program = Callable[[Notes], None]
_programs: list[tuple[str, Program, bool]] = []


def program(function: Program) -> Program:
    """A case of its module's theme."""
    _programs.append((function.__module__.rsplit(".", 1)[1], function, False))
    return function


def alone(function: Program) -> Program:
    """The same, in a process of its own."""
    _programs.append((function.__module__.rsplit(".", 1)[1], function, True))
    return function


def _run(function: Program) -> Outcome:
    notes = Notes()
    gpu.start()
    function(notes)
    return notes.lines


def cases() -> list[Case]:
    for found in sorted(pkgutil.iter_modules([str(Path(__file__).parent)]), key=lambda each: each.name):
        importlib.import_module(f"tests.conformance.api.{found.name}")
    return [
        Case(theme, function.__name__, partial(_run, function), by_itself) for theme, function, by_itself in _programs
    ]
