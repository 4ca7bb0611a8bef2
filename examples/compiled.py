"""Iterate a small network that torch.compile has made into CUDA graphs. It knows nothing of Torpor.

Prints each step exactly.
"""

from __future__ import annotations

import argparse
import time

import torch
from torch import nn


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--steps", type=int, default=100)
    arguments.add_argument("--delay", type=float, default=0.0)
    options = arguments.parse_args()

    torch.manual_seed(9)
    network = nn.Sequential(nn.Linear(512, 1024), nn.GELU(), nn.LayerNorm(1024), nn.Linear(1024, 512)).cuda().eval()
    compiled = torch.compile(network, mode="reduce-overhead")
    state = torch.randn(64, 512, device="cuda")
    for number in range(1, options.steps + 1):
        torch.compiler.cudagraph_mark_step_begin()
        with torch.inference_mode():
            state = torch.tanh(0.9 * state + compiled(state))  # what comes out is what goes in next
            value = state.double().sum().item()
        print(f"step {number} sum {value.hex()}", flush=True)
        time.sleep(options.delay)


if __name__ == "__main__":
    main()
