"""Joins what a real driver answered to `cuGetProcAddress` with the versions that the headers name.

The driver was asked at a few versions only (`api/getproc_580.txt`), so a change is known to lie in an interval; the
typedef headers say at which version in it.
"""

from __future__ import annotations

import re
from pathlib import Path

from api.model import Answer

FLAG_LEGACY, FLAG_PER_THREAD = 0, 2


def grid_and_rows(path: Path) -> tuple[list[int], dict[str, dict[int, dict[int, str]]]]:
    """The versions asked at, and base -> flags -> version -> symbol ("" for none)."""
    lines = path.read_text().splitlines()
    grid = [int(word) for line in lines[:3] if "Asked at" in line for word in re.findall(r"\b\d{4,5}\b", line)]
    rows: dict[str, dict[int, dict[int, str]]] = {}
    for line in lines:
        if not line.startswith("#"):
            base, version, flags, _, _, symbol = line.split()
            rows.setdefault(base, {}).setdefault(int(flags), {})[int(version)] = "" if symbol == "-" else symbol
    return grid, rows


def _exact(grid: list[int], coarse: dict[int, str], named: list[int], spare: list[str]) -> dict[int, str]:
    """Move each change from the grid point where it was seen to the version that the headers name.

    `spare` are exported variants that no grid point showed: they were current between two grid points.
    """
    exact: dict[int, str] = {}
    for version, symbol in sorted(coarse.items()):
        index = grid.index(version)
        low = grid[index - 1] if index else 0
        inside = [v for v in named if low < v <= version] if symbol else []
        if len(inside) > 1 and spare:
            exact[inside[-2]] = spare[0]
        exact[inside[-1] if inside else version] = symbol
    return exact


def join(path: Path, legacy: dict[str, list[int]], per_thread: dict[str, list[int]], exported: set[str]) \
        -> dict[str, tuple[Answer, ...]]:  # fmt: skip
    """Base name -> what each version gets, oldest first; bases that the driver does not answer are left out."""
    grid, rows = grid_and_rows(path)
    shown = {symbol for flags in rows.values() for answers in flags.values() for symbol in answers.values()}
    result: dict[str, tuple[Answer, ...]] = {}
    for base, flags in sorted(rows.items()):
        if flags[1] != flags[FLAG_LEGACY]:
            raise ValueError(f"{base}: the explicit legacy flag answers differently from none")
        spare = sorted(s for s in exported - shown if re.fullmatch(base + r"(_v\d+)?", s))
        plain = _exact(grid, flags[FLAG_LEGACY], legacy.get(base, []), spare)
        own = _exact(grid, flags[FLAG_PER_THREAD], per_thread.get(base) or legacy.get(base, []), spare)
        answers: list[Answer] = []
        for since in sorted({*plain, *own}):
            symbol = plain[max((v for v in plain if v <= since), default=min(plain))]
            second = own[max((v for v in own if v <= since), default=min(own))]
            if symbol or second:
                answers.append(Answer(since, symbol, second))
        if answers:
            result[base] = tuple(answers)
    return result
