"""A model that serves nobody: random device memory that stays as it is. `weights.py MIB SEED`.

SIGUSR1 changes one byte of it, every time in another place; SIGUSR2 makes it read all of its memory and say `sound N`
at the N-th time, if that is as it should be.
"""

from __future__ import annotations

import random
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

from count import check, driver

BLOCK = 2 << 20
asked = {signal.SIGUSR1: 0, signal.SIGUSR2: 0}


def note(number: int, _frame: object) -> None:
    asked[signal.Signals(number)] += 1


class Weights:
    def __init__(self, mib: int, seed: int) -> None:
        chance = random.Random(seed)
        self.data = [bytearray(chance.randbytes(size)) for size in ((mib << 20) - BLOCK, BLOCK)]
        self.places = [int(check(driver.cuMemAlloc(len(data)))) for data in self.data]
        for place, data in zip(self.places, self.data, strict=True):
            check(driver.cuMemcpyHtoD(place, bytes(data), len(data)))

    def change(self, times: int) -> None:
        at = times * (1 << 20) - 1
        self.data[0][at] ^= 0xFF
        check(driver.cuMemcpyHtoD(self.places[0] + at, bytes(self.data[0][at : at + 1]), 1))

    def check(self) -> None:
        for place, data in zip(self.places, self.data, strict=True):
            found = bytearray(len(data))
            check(driver.cuMemcpyDtoH(found, place, len(data)))
            if found != data:
                raise RuntimeError("device memory is not what was put there")


check(driver.cuInit(0))
check(driver.cuCtxSetCurrent(check(driver.cuDevicePrimaryCtxRetain(0))))
weights = Weights(int(sys.argv[1]), int(sys.argv[2]))
for number in asked:
    signal.signal(number, note)
print("ready", flush=True)
done = dict(asked)
while True:
    if done[signal.SIGUSR1] < asked[signal.SIGUSR1]:
        done[signal.SIGUSR1] += 1
        weights.change(done[signal.SIGUSR1])
        print(f"changed {done[signal.SIGUSR1]}", flush=True)
    if done[signal.SIGUSR2] < asked[signal.SIGUSR2]:
        done[signal.SIGUSR2] += 1
        weights.check()
        print(f"sound {done[signal.SIGUSR2]}", flush=True)
    time.sleep(0.005)
