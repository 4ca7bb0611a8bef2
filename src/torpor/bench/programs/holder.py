"""Holds GPU memory on one or several GPUs, checks it in every step, and says when each step was done.

    python holder.py [--gib G] [--devices N] [--delay S]

`--gib` on each GPU, in pieces of 1 GiB or less that are filled with different words. A step takes a word of each GPU
one further and checks the ends of one piece; it prints "step NUMBER NANOSECONDS" (CLOCK_MONOTONIC).
"""

from __future__ import annotations

import argparse
import ctypes
import time
from typing import Any

from cuda.bindings import driver

PIECE = 1 << 30
LEAST = 1 << 20


def check(result: tuple[Any, ...]) -> Any:
    """What a call gave; raises where it failed."""
    status, *values = result
    if status != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(status.name)
    return values[0] if len(values) == 1 else values


class Held:
    """Memory on one GPU: pieces, and a counter at the beginning of the first."""

    def __init__(self, ordinal: int, size: int) -> None:
        self.context = check(driver.cuDevicePrimaryCtxRetain(check(driver.cuDeviceGet(ordinal))))
        check(driver.cuCtxSetCurrent(self.context))
        sizes = [PIECE] * (size // PIECE) + ([size % PIECE] if size % PIECE else [])
        self.pieces = [(int(check(driver.cuMemAlloc(each))), each) for each in sizes]
        for number, (address, each) in enumerate(self.pieces):
            check(driver.cuMemsetD32(address, self.word(number), each // 4))
        check(driver.cuMemsetD32(self.pieces[0][0], 0, 1))
        check(driver.cuCtxSynchronize())

    def word(self, piece: int) -> int:
        return 0x5EED0001 + piece

    def read(self, address: int) -> int:
        word = ctypes.create_string_buffer(4)
        check(driver.cuMemcpyDtoH(word, address, 4))
        return int.from_bytes(word.raw, "little")

    def step(self, number: int) -> None:
        check(driver.cuCtxSetCurrent(self.context))
        first = self.pieces[0][0]
        if self.read(first) != number - 1:
            raise RuntimeError(f"the counter holds {self.read(first)} before step {number}")
        check(driver.cuMemsetD32(first, number, 1))
        piece = number % len(self.pieces)
        address, size = self.pieces[piece]
        for place in (address + 4, address + size - 4):
            if self.read(place) != self.word(piece):
                raise RuntimeError(f"piece {piece} has changed at {place:#x}")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--gib", type=float, default=0.0)
    arguments.add_argument("--devices", type=int, default=1)
    arguments.add_argument("--delay", type=float, default=0.005, help="seconds between steps")
    options = arguments.parse_args()
    check(driver.cuInit(0))
    size = max(LEAST, int(options.gib * (1 << 30)) // LEAST * LEAST)
    held = [Held(ordinal, size) for ordinal in range(options.devices)]
    number = 0
    while True:
        number += 1
        for each in held:
            each.step(number)
        print(f"step {number} {time.monotonic_ns()}", flush=True)
        time.sleep(options.delay)


if __name__ == "__main__":
    main()
