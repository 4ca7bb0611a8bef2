"""Runs every case on the driver at hand and writes what came out, one file per theme.

`python -m tests.conformance.record FOLDER [THEME…]`; those of the repository are in tests/conformance/recorded.
"""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.conformance import themes
from tests.conformance.runner import Outcomes, run_theme

AT_ONCE = 6


def record(theme: str, folder: Path, machine: dict[str, str]) -> str:
    """Writes the theme's file, at once when a part is known; returns a line about it."""
    began = time.monotonic()
    target = folder / f"{theme}.json"

    def keep(outcomes: Outcomes) -> None:
        lines = [f" {json.dumps(name)}: {json.dumps(outcome)}" for name, outcome in outcomes.items()]
        target.write_text(f'{{"machine": {json.dumps(machine)}, "cases": {{\n' + ",\n".join(lines) + "\n}}\n")

    outcomes = run_theme(theme, keep=keep)
    keep(outcomes)
    failed = [name for name, outcome in outcomes.items() if "failed" in outcome]
    spent, size = time.monotonic() - began, target.stat().st_size
    told = f"{theme:24} {len(outcomes):4} cases {spent:6.1f} s {size:8} bytes"
    reasons = dict.fromkeys(outcomes[name]["failed"] for name in failed)
    for reason in reasons:
        same = [name for name in failed if outcomes[name]["failed"] == reason]
        told += f"\n    {', '.join(same[:4])}{' …' if len(same) > 4 else ''} ({len(same)}): {reason[:400]}"
    return told


def main(folder: str, *wanted: str) -> None:
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    machine = run_theme("machine")["machine"]
    assert "notes" in machine, machine
    described = dict(machine["notes"])
    print(described, flush=True)
    chosen = [theme for theme in themes.names() if theme != "machine" and (not wanted or theme in wanted)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for line in pool.map(lambda theme: record(theme, place, described), chosen):
            print(line, flush=True)
    total = sum(file.stat().st_size for file in place.glob("*.json"))
    print(f"{len(chosen)} themes, {total} bytes in {place}")


if __name__ == "__main__":
    main(*sys.argv[1:])
