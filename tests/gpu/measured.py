"""Training and generation of a known length: `measured.py train|generate REPEATS [--trace FILE] [--count LIB FILE]`.

With `--trace` the last two thirds of the repeats are recorded by torch.profiler into FILE: by then clocks are those of
a GPU under load. With `--count` all driver calls of the whole run are counted by counted.c, built as LIB, into FILE.
"""

from __future__ import annotations

import argparse
import ctypes
from collections.abc import Callable
from contextlib import nullcontext

import torch


def training() -> Callable[[], None]:
    torch.manual_seed(1)
    layers = [torch.nn.Sequential(torch.nn.Linear(4096, 4096), torch.nn.GELU()) for _ in range(8)]
    model = torch.nn.Sequential(*layers).to("cuda", torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    data = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)

    def step() -> None:
        optimizer.zero_grad()
        model(data).square().mean().backward()
        optimizer.step()

    return step


def generation() -> Callable[[], None]:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(1)
    model = GPT2LMHeadModel(GPT2Config()).to("cuda").eval()
    prompt = torch.arange(16, device="cuda").unsqueeze(0)

    def step() -> None:
        with torch.no_grad():
            model.generate(prompt, min_new_tokens=32, max_new_tokens=32, do_sample=False, pad_token_id=0)

    return step


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("kind", choices=("train", "generate"))
    arguments.add_argument("repeats", type=int)
    arguments.add_argument("--trace")
    arguments.add_argument("--count", nargs=2, metavar=("LIB", "FILE"))
    options = arguments.parse_args()
    counter = ctypes.CDLL(options.count[0]) if options.count else None
    if counter and (status := counter.count_begin(f"libcupti.so.{torch.version.cuda.split('.')[0]}".encode())):
        raise SystemExit(f"CUPTI answers {status}")
    step = training() if options.kind == "train" else generation()
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    first = options.repeats // 3 if options.trace else 0
    for _ in range(first):
        step()
    torch.cuda.synchronize()
    gpu_only = [torch.profiler.ProfilerActivity.CUDA]
    recorder = torch.profiler.profile(activities=gpu_only) if options.trace else nullcontext()
    with recorder:
        for _ in range(options.repeats - first):
            step()
        torch.cuda.synchronize()
    if options.trace:
        recorder.export_chrome_trace(options.trace)
    if counter and counter.count_write(options.count[1].encode()):
        raise SystemExit(f"cannot write {options.count[1]}")


if __name__ == "__main__":
    main()
