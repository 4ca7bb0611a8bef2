"""Question: how fast does each kind of memory leave a job and come back?

For each kind, a job that holds nothing and one that holds GIB of it (bench/hold.py) are checkpointed (killed) and
restored, images in memory. The rate is what the difference in bytes costs in time; the kinds take turns. `registered`
is memory that the program allocated and registered itself. Native twins: `pinned-driver` and `registered-driver` are
the same left to the driver and CRIU, as kinds are that Torpor does not move itself. On the software GPU the host's
kinds alone say something.

Target, on an H200: 20 GB/s or more for every kind; a kind below belongs on Torpor's own path.

    python bench/pools.py [--gib 8] [--kinds alloc default-pool own-pool mapped pinned pinned-driver registered
        registered-driver] [--repeat 3] [--out pools.json]
"""

from __future__ import annotations

import script

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import machine

import torpor
from torpor import api
from torpor.bench import home

KINDS = ("alloc", "default-pool", "own-pool", "mapped", "pinned", "pinned-driver", "registered", "registered-driver")
HOLD = Path(__file__).with_name("hold.py")


def turns(job: torpor.Job) -> int:
    lines = b"".join(job.logs()).decode().splitlines()
    return max((int(line.split()[1]) for line in lines if line.startswith("turn ")), default=0)


def wait_past(job: torpor.Job, turn: int, timeout: float = 180) -> None:
    end = time.monotonic() + timeout
    while turns(job) <= turn:
        if job.exit_code is not None or time.monotonic() > end:
            raise SystemExit(f"{job.name} did not get past turn {turn}:\n{b''.join(job.logs()).decode()[-3000:]}")
        time.sleep(0.01)


def cycle(kind: str, gib: float) -> tuple[float, float, int]:
    """Seconds of a checkpoint and of the restore, and the bytes that were on Torpor's own path."""
    held = kind.removesuffix("-driver")
    env = {} if held == kind else {"TORPOR_PINNED": "driver"}
    job = torpor.run([sys.executable, str(HOLD), held, str(gib)], env=env)
    wait_past(job, 1)
    start = time.perf_counter()
    image = job.checkpoint(tier="dram", deadline=60)
    saved = time.perf_counter() - start
    start = time.perf_counter()
    woken = torpor.restore(image)
    restored = time.perf_counter() - start
    wait_past(woken, turns(woken))  # it checks every piece in each turn
    pinned = [entry.size for entry in image.manifest.files if entry.path.startswith("pinned/")]
    own = image.manifest.gpu_bytes + sum(pinned)
    woken.kill(9)
    woken.wait(timeout=60)
    woken.remove()
    image.remove()
    return saved, restored, own


def measure(kind: str, gib: float, runs: dict[float, list[tuple[float, float, int]]]) -> dict[str, Any]:
    empty, full = (
        [statistics.median(run[verb] for run in runs[size]) for verb in (0, 1)] for size in (0.0, gib)
    )
    byte_count = gib * (1 << 30)
    rates = [byte_count / max(with_it - without, 1e-3) / 1e9 for without, with_it in zip(empty, full, strict=True)]
    return {
        "kind": kind,
        "gib": gib,
        "own_path": runs[gib][0][2] >= byte_count,
        "checkpoint_s": [round(empty[0], 3), round(full[0], 3)],
        "restore_s": [round(empty[1], 3), round(full[1], 3)],
        "checkpoint_gb_per_s": round(rates[0], 1),
        "restore_gb_per_s": round(rates[1], 1),
    }


def main() -> None:
    parser = script.options(__doc__)
    parser.add_argument("--gib", type=script.number(), default=8.0)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    parser.add_argument("--repeat", type=script.whole(), default=3)
    options = parser.parse_args()
    backend = api.default_backend()
    with home.own(backend):  # so that nothing is left of it, wherever it is broken off
        api.keeper_warm(backend, int(options.gib * (1 << 30)))
        compare(options)


def compare(options: argparse.Namespace) -> None:
    """Cycles in turns; what is known is printed and written again after each turn of all."""
    sizes = (0.0, options.gib)
    runs: dict[str, dict[float, list[tuple[float, float, int]]]] = {k: {s: [] for s in sizes} for k in options.kinds}
    for _ in range(options.repeat):
        for kind in options.kinds:
            for size in sizes:
                script.check()
                runs[kind][size].append(cycle(kind, size))
        found = [measure(kind, options.gib, runs[kind]) for kind in options.kinds]
        print(*map(json.dumps, found), sep="\n", flush=True)  # what is printed last counts
        script.keep(options.out, {"machine": machine.describe(), "kinds": found})


if __name__ == "__main__":
    script.run(main)
