"""Blend vectors of twenty sizes with a Triton kernel that is tuned for each. It knows nothing of Torpor.

Prints each sum exactly.
"""

from __future__ import annotations

import argparse
import time

import torch
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"block": block}, num_warps=4) for block in (128, 512, 2048)], key=["size"])
@triton.jit
def blend(left, right, out, size, block: tl.constexpr):
    """out = left / 2 + right, each of `size` numbers: whatever block is, the same to the bit."""
    at = tl.program_id(0) * block + tl.arange(0, block)
    inside = at < size
    tl.store(out + at, tl.load(left + at, mask=inside) * 0.5 + tl.load(right + at, mask=inside), mask=inside)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--steps", type=int, default=60)
    arguments.add_argument("--delay", type=float, default=0.0)
    options = arguments.parse_args()

    generator = torch.Generator(device="cuda").manual_seed(4)
    carried = 0.0
    for number in range(1, options.steps + 1):
        size = 1000 * (1 + number % 20)  # twenty sizes: some are tuned early, some late
        left = torch.rand(size, device="cuda", generator=generator) + carried
        right = torch.rand(size, device="cuda", generator=generator)
        out = torch.empty_like(left)
        blend[lambda meta, size=size: (triton.cdiv(size, meta["block"]),)](left, right, out, size)
        carried = out[-1].item()
        print(f"step {number} size {size} sum {out.double().sum().item().hex()}", flush=True)
        time.sleep(options.delay)


if __name__ == "__main__":
    main()
