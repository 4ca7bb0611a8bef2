"""Count on the GPU: a small program for trying Torpor out. It knows nothing of Torpor.

The counter lives in device memory, and so does a trail of every number it passed: tick k reads the counter back,
writes k + 1, fills the next page of the trail with it, and checks a page written long before. A line is printed per
tick, so one sees at once whether a woken program stands where it was put to sleep, with all its memory.

Needs `cuda-bindings` only. Runs no kernels (memset and copies), so it runs on Torpor's software GPU too.
"""

from __future__ import annotations

import argparse
import time

from cuda.bindings import driver


def check(result):
    """Unpack a cuda-bindings result; raise on anything but success."""
    status, *values = result
    if status != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"{status.name}")
    return values[0] if values else None


class Counter:
    """A counter and its trail of `pages` pages of `page_bytes` bytes, all in device memory."""

    def __init__(self, pages: int, page_bytes: int) -> None:
        self.pages, self.page_bytes = pages, page_bytes
        self.counter = check(driver.cuMemAlloc(4))
        self.trail = check(driver.cuMemAlloc(pages * page_bytes))
        check(driver.cuMemsetD32(self.counter, 0, 1))

    def read(self, address: int) -> int:
        """The unsigned 32-bit word at a device address."""
        word = bytearray(4)
        check(driver.cuMemcpyDtoH(word, address, 4))
        return int.from_bytes(word, "little")

    def page(self, tick: int) -> int:
        """Device address of the page that holds `tick`."""
        return int(self.trail) + tick % self.pages * self.page_bytes

    def step(self) -> int:
        """Advance by one; return the new count. Raises if device memory does not hold what was put there."""
        count = self.read(int(self.counter)) + 1
        check(driver.cuMemsetD32(self.counter, count, 1))
        check(driver.cuMemsetD32(self.page(count), count, self.page_bytes // 4))
        oldest = max(1, count - self.pages + 1)
        for tick in {oldest, (oldest + count) // 2, count}:
            found = self.read(self.page(tick) + self.page_bytes - 4)
            if found != tick:
                raise RuntimeError(f"page of tick {tick} holds {found}")
        return count


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--to", type=int, default=1_000_000, help="count up to this number")
    arguments.add_argument("--mib", type=int, default=256, help="device memory for the trail, in MiB")
    arguments.add_argument("--delay", type=float, default=0.2, help="seconds between ticks")
    arguments.add_argument("--device", type=int, default=0, help="device ordinal")
    options = arguments.parse_args()

    check(driver.cuInit(0))
    device = check(driver.cuDeviceGet(options.device))
    check(driver.cuCtxSetCurrent(check(driver.cuDevicePrimaryCtxRetain(device))))
    name = check(driver.cuDeviceGetName(64, device)).split(b"\0")[0].decode()
    counter = Counter(pages=options.mib, page_bytes=1 << 20)
    print(f"counting on {name}, {options.mib} MiB of trail", flush=True)
    count = 0
    while count < options.to:
        count = counter.step()
        print(f"count {count}", flush=True)
        time.sleep(options.delay)
    print("done", flush=True)


if __name__ == "__main__":
    main()
