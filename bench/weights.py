"""Random device memory that stays as it is until it is told to change: the job of bench/into_store.py.

    python bench/weights.py GIB

SIGUSR1 changes four bytes in every 512 KiB, SIGUSR2 in 3 % of them; a line `changed N` says when that is done.
"""

from __future__ import annotations

import script

import os
import signal
import time

from cuda.bindings import driver
from driver_calls import checked as check

MIB = 1 << 20
CHUNK, PIECE, NOISE = MIB // 2, 256 * MIB, 64 * MIB
asked = {signal.SIGUSR1: 1, signal.SIGUSR2: 33}
"""Signal → of how many chunks one changes."""
turns: list[int] = []


def note(number: int, _frame: object) -> None:
    turns.append(asked[signal.Signals(number)])


def main() -> None:
    parser = script.options(__doc__, out=False)
    parser.add_argument("gib", type=script.number(1 / 1024), metavar="GIB")
    size = int(parser.parse_args().gib * 1024) * MIB
    check(driver.cuInit(0))
    check(driver.cuCtxSetCurrent(check(driver.cuDevicePrimaryCtxRetain(0))))
    noise = os.urandom(min(NOISE, size))
    chunks: list[int] = []
    for at in range(0, size, PIECE):
        piece = min(PIECE, size - at)
        address = int(check(driver.cuMemAlloc(piece)))
        for offset in range(0, piece, len(noise)):
            check(driver.cuMemcpyHtoD(address + offset, noise, min(len(noise), piece - offset)))
        chunks += range(address, address + piece, CHUNK)

    def mark(turn: int, every: int) -> None:
        for number in range(0, len(chunks), every):
            # No two chunks are ever the same.
            check(driver.cuMemsetD32(chunks[number], turn * len(chunks) + number, 1))
        check(driver.cuCtxSynchronize())

    mark(0, 1)
    for one in asked:
        signal.signal(one, note)
    print("ready", flush=True)
    done = 0
    while True:
        if len(turns) > done:
            mark(done + 1, turns[done])
            done += 1
            print(f"changed {done}", flush=True)
        time.sleep(0.005)


if __name__ == "__main__":
    main()
