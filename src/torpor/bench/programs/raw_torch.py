"""Matrix products as PyTorch makes them, with tensor cores where the type has them.

For each line "<type>:<N> <count>" on standard input, multiplies two N × N matrices that often and prints the
nanoseconds of each. Types: bf16, tf32, f32, f64.
"""

from __future__ import annotations

import sys
import time

import torch

TYPES = {"bf16": torch.bfloat16, "tf32": torch.float32, "f32": torch.float32, "f64": torch.float64}


def main() -> None:
    torch.manual_seed(0)
    held: dict[str, tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = {}
    for line in sys.stdin:
        wanted, count = line.split()
        kind, _, size = wanted.partition(":")
        torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
        if wanted not in held:
            held[wanted] = tuple(torch.randn(int(size), int(size), device="cuda").to(TYPES[kind]) for _ in range(3))
        a, b, c = held[wanted]
        torch.matmul(a, b, out=c)
        torch.cuda.synchronize()
        start = time.perf_counter_ns()
        for _ in range(int(count)):
            torch.matmul(a, b, out=c)
        torch.cuda.synchronize()
        print(f"{(time.perf_counter_ns() - start) / int(count):.1f}", flush=True)


if __name__ == "__main__":
    main()
