"""What jobs and keepers wrote before a test failed: the last lines of their logs, to understand it from afar."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

LINES = 12
FILES = 8
NAMES = ("log", "*.log")
"""A job's output, a keeper's log, CRIU's logs."""


def last_lines(places: Iterable[Path]) -> str:
    """The ends of the logs below these folders, the newest last; "" when there are none."""
    found = {file for place in places for name in NAMES for file in place.rglob(name) if file.is_file()}
    written = [file for file in sorted(found, key=_written) if file.stat().st_size]
    return "\n".join(f"{file}:\n{_end_of(file)}" for file in written[-FILES:])


def _written(file: Path) -> float:
    return file.stat().st_mtime


def _end_of(file: Path) -> str:
    with file.open("rb") as opened:
        opened.seek(max(0, file.stat().st_size - 200 * LINES))
        lines = opened.read().decode(errors="replace").splitlines()[-LINES:]
    return "\n".join(f"    {line}" for line in lines)
