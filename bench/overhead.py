"""Question: what does Torpor cost a job while nothing goes wrong?   Target: every median within 1 % of native.

Two copies of the same program live side by side, one native, one under `torpor run`, on the same processor core. They take
turns: a batch of a tenth of a second or less of one, then of the other, so that whatever the machine does meanwhile
happens to both. Programs: bench/native/calls.c (null-kernel launches, 8-byte copies, a query) and bench/eager_loop.py
(eager PyTorch). Reported for each kind: the median of either side, and the median ratio of adjacent batches with its
quartiles.

    python bench/overhead.py [--rounds 60] [--core 4] [--out results.json]
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

import machine

HERE = Path(__file__).parent
CALLS = {"launch": 12000, "copy_in_8B": 8000, "copy_out_8B": 5000, "copy_in_async_8B": 20000, "get_device": 1000000}
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


def compare(command: list[str], batches: dict[str, int], rounds: int) -> dict[str, dict[str, float]]:
    """Statistics of each kind of batch over `rounds` turns of each copy."""
    native, ours = Program(command, False), Program(command, True)
    found: dict[str, list[tuple[float, float]]] = {kind: [] for kind in batches}
    for turn in range(-2, rounds):  # two turns of warm-up
        for kind, count in batches.items():
            if turn % 2:
                a = native.batch(kind, count)
                b = ours.batch(kind, count)
            else:
                b = ours.batch(kind, count)
                a = native.batch(kind, count)
            if turn >= 0:
                found[kind].append((a, b))
    native.end()
    ours.end()
    result = {}
    for kind, pairs in found.items():
        low, middle, high = statistics.quantiles([b / a for a, b in pairs], n=4)
        result[kind] = {
            "native_ns": statistics.median(a for a, _ in pairs),
            "torpor_ns": statistics.median(b for _, b in pairs),
            "ratio": middle, "lower_quartile": low, "upper_quartile": high, "pairs": len(pairs),
        }
    return result


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rounds", type=int, default=60)
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
                result |= compare([*taskset, *command], batches, options.rounds)
    print("| call | native ns | Torpor ns | ratio of adjacent batches: median (quartiles) |")
    print("| --- | --- | --- | --- |")
    for kind, r in result.items():
        print(
            f"| {kind} | {r['native_ns']:.1f} | {r['torpor_ns']:.1f} "
            f"| {r['ratio']:.4f} ({r['lower_quartile']:.4f} to {r['upper_quartile']:.4f}) |",
            flush=True,
        )
    if options.out:
        options.out.write_text(json.dumps({"machine": machine.describe(), "overhead": result}, indent=1))


if __name__ == "__main__":
    main()
