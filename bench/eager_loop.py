"""Question: what does one iteration of a small eager PyTorch loop cost?  (Run by bench/overhead.py, native and under Torpor.)

Prints "<kind> <nanoseconds per iteration>" per batch: an element-wise add in place, a small matrix product, and a small
training step.
"""

from __future__ import annotations

import sys
import time

import torch


def timed(kind: str, body, iterations: int, batches: int) -> None:
    for batch in range(-2, batches):
        torch.cuda.synchronize()
        start = time.perf_counter_ns()
        for _ in range(iterations):
            body()
        torch.cuda.synchronize()
        if batch >= 0:
            print(f"{kind} {(time.perf_counter_ns() - start) / iterations:.1f}", flush=True)


def main() -> None:
    batches = int(sys.argv[1]) if len(sys.argv) > 1 else 9
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

    timed("eager_add", lambda: x.add_(1), 5000, batches)
    timed("eager_mm", lambda: a @ b, 5000, batches)
    timed("train_step", train, 300, batches)


if __name__ == "__main__":
    main()
