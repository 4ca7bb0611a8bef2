"""Question: what does Torpor cost a job while nothing goes wrong?   Target: every median within 1 % of native.

Copies of the same program live side by side on the same processor core: one native, one under `torpor run`, and for the
control a second native one. They take turns: a batch of a tenth of a second or less each, so that whatever the machine
does meanwhile happens to all. Where a process's memory comes to lie changes its speed by some percent for as long as it
lives, so several such groups follow one another. Programs: bench/native/calls.c (null-kernel launches, 8-byte copies, a
query) and bench/eager_loop.py (eager PyTorch).

Reported for each kind: native time (median), and the ratio to it of Torpor and of the control: each group's median
ratio of adjacent batches, of these the median, and the lowest and highest. What the control differs from 1 cannot be
told from noise.

    python bench/overhead.py [--groups 7] [--rounds 10] [--core 4] [--out results.json]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import machine

HERE = Path(__file__).parent
CALLS = {"launch": 8000, "copy_in_8B": 6000, "copy_out_8B": 4000, "copy_in_async_8B": 15000, "get_device": 1000000}
EAGER = {"eager_add": 5000, "eager_mm": 3000, "eager_train_step": 60}


class Program:
    """One live copy of a program, driven by lines."""

    def __init__(self, command: list[str], interposed: bool) -> None:
        prefix = [sys.executable, "-m", "torpor", "run", "--"] if interposed else []
        self._process = subprocess.Popen(
            [*prefix, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def batch(self, kind: str, count: int) -> float:
        """Nanoseconds per call."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(f"{kind} {count}\n")
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"the program ended with {self._process.wait()} in {kind}")
        return float(line)

    def end(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        if self._process.wait(60) != 0:
            raise SystemExit(f"the program ended with {self._process.returncode}")


def compare(command: list[str], batches: dict[str, int], groups: int, rounds: int) -> dict[str, dict[str, Any]]:
    """Statistics of each kind of batch over `groups` groups of copies, each taking `rounds` turns."""
    times: dict[str, list[float]] = {kind: [] for kind in batches}
    ratios: dict[str, dict[str, list[float]]] = {kind: {"torpor": [], "control": []} for kind in batches}
    for _ in range(groups):
        copies = {
            "native": Program(command, False),
            "torpor": Program(command, True),
            "control": Program(command, False),
        }
        found: dict[str, dict[str, list[float]]] = {kind: {side: [] for side in copies} for kind in batches}
        for turn in range(-1, rounds):  # one turn of warm-up
            order = list(copies) if turn % 2 else list(copies)[::-1]
            for kind, count in batches.items():
                for side in order:
                    time = copies[side].batch(kind, count)
                    if turn >= 0:
                        found[kind][side].append(time)
        for copy in copies.values():
            copy.end()
        for kind, sides in found.items():
            times[kind] += sides["native"]
            for side, collected in ratios[kind].items():
                pairs = zip(sides["native"], sides[side], strict=True)
                collected.append(statistics.median(other / native for native, other in pairs))
    return {kind: {"native_ns": statistics.median(times[kind]), **ratios[kind]} for kind in batches}


def spread(ratios: list[float]) -> str:
    return f"{statistics.median(ratios):.4f} ({min(ratios):.4f} to {max(ratios):.4f})"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--groups", type=int, default=7)
    arguments.add_argument("--rounds", type=int, default=10)
    arguments.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)) // 2)
    arguments.add_argument("--kinds", nargs="*", default=[*CALLS, *EAGER])
    arguments.add_argument("--out", type=Path)
    options = arguments.parse_args()
    taskset = ["taskset", "-c", str(options.core)]
    result = {}
    with tempfile.TemporaryDirectory() as folder:
        calls = str(Path(folder) / "calls")
        subprocess.run(["cc", "-O2", "-o", calls, str(HERE / "native" / "calls.c"), "-ldl"], check=True)
        for command, known in (([calls], CALLS), ([sys.executable, str(HERE / "eager_loop.py")], EAGER)):
            batches = {kind: count for kind, count in known.items() if kind in options.kinds}
            if batches:
                result |= compare([*taskset, *command], batches, options.groups, options.rounds)
    print("| call | native ns | Torpor / native | control / native |")
    print("| --- | --- | --- | --- |")
    for kind, r in result.items():
        print(f"| {kind} | {r['native_ns']:.1f} | {spread(r['torpor'])} | {spread(r['control'])} |", flush=True)
    if options.out:
        options.out.write_text(json.dumps({"machine": machine.describe(), "overhead": result}, indent=1))


if __name__ == "__main__":
    main()
