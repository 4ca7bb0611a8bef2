"""Question: what does one iteration of a small eager PyTorch loop cost?  (bench/overhead.py runs it, taking turns.)

For each line "<kind> <iterations>" on standard input, runs that many iterations and prints the nanoseconds of each.
Kinds: an element-wise add in place, a small matrix product, a small training step.
"""

from __future__ import annotations

import script  # noqa: F401 - of a job only the beginning

import gc
import sys
import time

import torch


def main() -> None:
    torch.manual_seed(0)
    x = torch.zeros(1024, device="cuda")
    a, b = torch.randn(128, 128, device="cuda"), torch.randn(128, 128, device="cuda")
    model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256)).cuda()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs = torch.randn(64, 256, device="cuda")

    def train() -> None:
        optimiser.zero_grad()
        model(inputs).square().mean().backward()
        optimiser.step()

    bodies = {"eager_add": lambda: x.add_(1), "eager_mm": lambda: a @ b, "eager_train_step": train}
    gc.disable()
    for line in sys.stdin:
        kind, iterations = line.split()
        body = bodies[kind]
        torch.cuda.synchronize()
        start = time.perf_counter_ns()
        for _ in range(int(iterations)):
            body()
        torch.cuda.synchronize()
        print(f"{(time.perf_counter_ns() - start) / int(iterations):.1f}", flush=True)


if __name__ == "__main__":
    main()
