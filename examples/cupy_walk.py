"""A random walk of a million points in CuPy, with a kernel of its own. It knows nothing of Torpor."""

from __future__ import annotations

import argparse
import time

import cupy

STEP = cupy.ElementwiseKernel(
    "float32 position, float32 push", "float32 out", "out = position * 0.999f + push * 0.1f", "walk_step"
)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--steps", type=int, default=100)
    arguments.add_argument("--delay", type=float, default=0.0)
    options = arguments.parse_args()

    random = cupy.random.default_rng(11)
    position = cupy.zeros(1 << 20, dtype=cupy.float32)
    for number in range(1, options.steps + 1):
        position = STEP(position, random.standard_normal(1 << 20, dtype=cupy.float32))
        checksum = int(position.view(cupy.uint32).astype(cupy.uint64).sum())
        print(f"step {number} checksum {checksum:016x}", flush=True)
        time.sleep(options.delay)


if __name__ == "__main__":
    main()
