"""Plays the whole fault matrix and writes the table: `python -m tests.faults --write docs/results/faults.md`.

Results are kept, one JSON object a line, in the file that `--rows` names: rows that are in it are not played again, so
a run that was broken off goes on, and two runs with `--part 1/2` and `--part 2/2` share the work.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from pathlib import Path

from tests.faults.matrix import all_rows
from tests.faults.play import play
from tests.faults.rows import Row
from tests.faults.scene import Scene
from tests.faults.table import table


def main() -> int:
    """Exit status 1 when any row came out wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults")
    parser.add_argument("--write", type=Path, help="where the table goes")
    parser.add_argument("--rows", type=Path, default=Path("build/faults.jsonl"))
    parser.add_argument("--part", default="1/1", help="play only every n-th row, from the i-th on: I/N")
    options = parser.parse_args()
    options.rows.parent.mkdir(exist_ok=True)
    first, step = (int(number) for number in options.part.split("/"))
    known = read(options.rows)
    # The scene can stay as it is between rows that have the same needs.
    rows = sorted(
        all_rows(), key=lambda row: (row.flow.endswith("dram"), row.agent in ("driver of the job", "second process"))
    )
    with options.rows.open("a") as file:
        run([row for row in rows[first - 1 :: step] if row.name not in known], file)
    known = read(options.rows)
    found = [(row, known[row.name]) for row in all_rows() if row.name in known]
    if options.write:
        options.write.write_text(table(found, len(all_rows()), f"Linux {platform.release()}"))
    wrong = [row.name for row, result in found if result["outcome"] not in row.outcomes]
    print(f"{len(found)} of {len(all_rows())} rows, {len(wrong)} wrong", *wrong, sep="\n")
    return 1 if wrong else 0


def read(file: Path) -> dict[str, dict[str, object]]:
    """Results by the name of their row."""
    if not file.exists():
        return {}
    results = [json.loads(line) for line in file.read_text().splitlines()]
    return {result["row"]: result for result in results}


def run(rows: list[Row], file: object) -> None:
    scene = Scene()
    try:
        for number, row in enumerate(rows, 1):
            begun = time.monotonic()
            result: dict[str, object] = {"row": row.name}
            try:
                played = play(scene, row)
                result |= {"outcome": played.outcome, "code": played.code, "message": played.message}
            except Exception as error:  # noqa: BLE001 - the row is lost, and the others are to be played
                result |= {"outcome": "lost", "code": -1, "message": f"{type(error).__name__}: {error}"}
                scene.close()
                scene = Scene()
            print(f"{number}/{len(rows)} {time.monotonic() - begun:.1f} s {row.name}: {result['outcome']}", flush=True)
            print(json.dumps(result), file=file, flush=True)  # type: ignore[call-overload]
    finally:
        scene.close()


sys.exit(main())
