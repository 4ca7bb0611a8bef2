"""Two processes that send tensors on the GPU to each other through queues, and print what each found in them.

The child doubles what it gets in place, so both use the same memory: PyTorch shares it by IPC handle, with an event for
each tensor.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import torch
import torch.multiprocessing as multiprocessing


def child(there: Any, back: Any) -> None:
    kept = []
    while (tensor := there.get()) is not None:
        tensor.mul_(2)
        kept.append(tensor.clone())  # PyTorch sends on nothing that it received
        back.put((kept[-1], kept[-1][:8].sum()))
        del tensor
    back.put(torch.stack(kept).double().sum())
    there.get()  # until the parent has taken the last


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--delay", type=float, default=0.0)
    arguments = parser.parse_args()
    spawning = multiprocessing.get_context("spawn")
    there, back = spawning.Queue(), spawning.Queue()
    other = spawning.Process(target=child, args=(there, back))
    other.start()
    generator = torch.Generator("cuda").manual_seed(3)
    for number in range(arguments.rounds):
        tensor = torch.rand(1 << 20, device="cuda", generator=generator)
        there.put(tensor)
        same, seen = back.get()
        assert torch.equal(tensor, same)
        print(f"round {number} {tensor.double().sum().item().hex()} {seen.item().hex()}", flush=True)
        del same, seen
        time.sleep(arguments.delay)
    there.put(None)
    print(f"all {back.get().item().hex()}", flush=True)
    there.put(None)
    other.join()
    assert other.exitcode == 0


if __name__ == "__main__":
    main()
