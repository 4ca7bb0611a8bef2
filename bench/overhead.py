"""Question: what does Torpor cost a job while nothing goes wrong?   Target: every median within 1 % of native.

Runs the same programs natively and under `torpor run`, in alternation, in one go: bench/native/calls.c (null-kernel
launches, 8-byte copies, a query) and bench/eager_loop.py (eager PyTorch). Reports for each kind the median of each side
over all runs, the ratio, and the spread: lowest and highest ratio of adjacent pairs of runs.

    python bench/overhead.py [--rounds 5] [--out results.json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import machine

HERE = Path(__file__).parent
Samples = dict[str, list[float]]


def sample(command: list[str], interposed: bool) -> Samples:
    """Run one program; nanoseconds per call by kind."""
    prefix = [sys.executable, "-m", "torpor", "run", "--"] if interposed else []
    done = subprocess.run([*prefix, *command], capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed ({'torpor' if interposed else 'native'}):\n{done.stderr}")
    found: Samples = defaultdict(list)
    for line in done.stdout.splitlines():
        kind, _, value = line.partition(" ")
        found[kind].append(float(value))
    return found


def compare(command: list[str], rounds: int) -> dict[str, dict[str, float]]:
    """Alternate native and interposed runs; statistics by kind."""
    pairs = []
    for number in range(rounds):
        order = (False, True) if number % 2 == 0 else (True, False)
        by_side = {side: sample(command, side) for side in order}
        pairs.append((by_side[False], by_side[True]))
    result = {}
    for kind in pairs[0][0]:
        medians = [(statistics.median(native[kind]), statistics.median(ours[kind])) for native, ours in pairs]
        native = statistics.median(x for pair, _ in pairs for x in pair[kind])
        ours = statistics.median(x for _, pair in pairs for x in pair[kind])
        ratios = sorted(b / a for a, b in medians)
        result[kind] = {
            "native_ns": native, "torpor_ns": ours, "ratio": ours / native,
            "median_pair_ratio": statistics.median(ratios), "lowest": ratios[0], "highest": ratios[-1],
        }
    return result


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--skip-torch", action="store_true")
    arguments.add_argument("--out", type=Path)
    options = arguments.parse_args()
    result = {}
    with tempfile.TemporaryDirectory() as folder:
        calls = str(Path(folder) / "calls")
        subprocess.run(["cc", "-O2", "-o", calls, str(HERE / "native" / "calls.c"), "-ldl"], check=True)
        result |= compare([calls], options.rounds)
        if not options.skip_torch:
            result |= compare([sys.executable, str(HERE / "eager_loop.py")], options.rounds)
    print("| call | native ns | Torpor ns | ratio | pair ratios: median (lowest to highest) |")
    print("| --- | --- | --- | --- | --- |")
    for kind, r in result.items():
        print(
            f"| {kind} | {r['native_ns']:.1f} | {r['torpor_ns']:.1f} | {r['ratio']:.4f} "
            f"| {r['median_pair_ratio']:.4f} ({r['lowest']:.4f} to {r['highest']:.4f}) |",
            flush=True,
        )
    if options.out:
        options.out.write_text(json.dumps({"machine": machine.describe(), "overhead": result}, indent=1))


if __name__ == "__main__":
    main()
