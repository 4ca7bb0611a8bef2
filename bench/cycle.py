"""Question: how long do checkpoint and restore take, against the GPU memory that a PyTorch job holds?

Compares, in one run: Torpor with its arena, and the vendor's own way (the driver's checkpoint calls + CRIU), which
is the same code with `--no-arena`: then every byte is the driver's to move. The job is examples/train.py, images lie in
memory (`dram`) for both, the keeper's pinned pool is warm, every cycle kills the job. On the software GPU, which has no
PyTorch, the job is examples/count.py and the figures say nothing: they show that the benchmark works. `torpor bench
checkpoint` measures the same with a job of its own, which needs no PyTorch.

Targets, on an H200: at 16 GiB restore <= 1.5 s and checkpoint <= 2 s, each at least 8 times faster than driver + CRIU;
restore at 48 GiB <= 1.3 x restore at 0 GiB; bytes move at >= 50 GB/s.

    python bench/cycle.py [--gib 0 4 16 48] [--repeat 3] [--out cycle.json]
"""

from __future__ import annotations

import script

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

import msgspec

from torpor import api
from torpor.bench import cycles, home, machine

EXAMPLES = Path(__file__).parents[1] / "examples"
MODES = {"torpor": True, "driver+criu": False}


def program(gib: float) -> list[str]:
    """The job's command: a program that holds `gib` GiB of GPU memory and prints numbered lines."""
    if api.default_backend() == "gpu":
        train = ["train.py", "--steps", "100000", "--delay", "0.02", "--hold-gib", str(gib)]
        return [sys.executable, str(EXAMPLES / train[0]), *train[1:]]
    return [sys.executable, str(EXAMPLES / "count.py"), "--delay", "0.02", "--mib", str(int(gib * 1024) or 1)]


def median(rows: list[dict[str, Any]], key: str) -> float:
    return statistics.median(row[key] for row in rows)


def spread(rows: list[dict[str, Any]], key: str) -> str:
    values = sorted(row[key] for row in rows)
    return f"{statistics.median(values):.2f} ({values[0]:.2f} to {values[-1]:.2f})"


def main() -> None:
    arguments = script.options(__doc__)
    size, count = script.number(), script.whole(0)
    arguments.add_argument("--gib", type=size, nargs="+", default=[0, 4, 16, 48])
    arguments.add_argument("--repeat", type=count, default=3, help="cycles of Torpor for each size")
    arguments.add_argument("--repeat-driver", type=count, default=1, help="cycles of driver + CRIU for each size")
    arguments.add_argument("--driver-up-to", type=size, default=48, help="the largest size for driver + CRIU, GiB")
    arguments.add_argument("--touch-gib", type=count, default=0, help="host memory to touch before anything is timed")
    options = arguments.parse_args()

    machine.touch_memory(options.touch_gib << 30)
    with home.own(api.default_backend()):  # the keeper is stopped, too, which is to be nobody else's
        measure(options)


def measure(options: argparse.Namespace) -> None:
    """Cycles of both ways, printed and written as they are made, then the table."""
    results: dict[str, dict[str, list[dict[str, Any]]]] = {
        f"{gib:g}": {mode: [] for mode in MODES} for gib in options.gib
    }
    for mode, turns in (("torpor", options.repeat), ("driver+criu", options.repeat_driver)):
        # The baseline has no use for the pool, and with all bytes twice in the host's memory no room for it.
        api.keeper_stop(api.default_backend())
        if mode == "torpor":
            api.keeper_warm(api.default_backend(), int((max(options.gib) + 2) * (1 << 30)))
        for turn in range(turns):
            for gib in options.gib:
                if mode == "driver+criu" and gib > options.driver_up_to:
                    continue  # takes minutes, and twice the bytes of the host's memory
                script.check()
                row = msgspec.to_builtins(cycles.live(program(gib), arena=MODES[mode]))
                results[f"{gib:g}"][mode].append(row)
                print(f"{gib:g} GiB {mode}, cycle {turn + 1}: {json.dumps(row)}", flush=True)
                script.keep(options.out, {"machine": machine.describe(), "cycles": results})
    print("| GiB held | | checkpoint s | restore s | until the next step s | GPU image GiB | CPU image GiB |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for gib_held, by_mode in results.items():
        for mode, rows in by_mode.items():
            if rows:
                cells = [spread(rows, key) for key in ("checkpoint", "restore", "next_step")]
                sizes = [f"{median(rows, key) / (1 << 30):.2f}" for key in ("gpu_bytes", "cpu_bytes")]
                print(f"| {gib_held} | {mode} | {' | '.join(cells)} | {' | '.join(sizes)} |", flush=True)


if __name__ == "__main__":
    script.run(main)
