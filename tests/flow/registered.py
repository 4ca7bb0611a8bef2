"""A program that registers memory of its own, written by the GPU, by itself and by another thread all the time.

One piece stays registered, another is registered and unregistered again and again, and a forked child has a copy of the
first.

Prints a digest per step. Two runs print the same.
"""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import os
import threading

import pace
from cuda.bindings import driver
from pinned import Child, check

MIB, PAGE = 1 << 20, 4096
LARGE, PASSING = 48 * MIB, 36 * MIB
EDGE = 1000
"""Bytes of the large piece's first page that are not registered."""


class Area:
    """Private memory, as `malloc` gives it."""

    def __init__(self, size: int) -> None:
        self.memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))


def digest_of(area: Area) -> bytes:
    return hashlib.blake2b(area.memory, digest_size=8).digest()


def child_of(area: Area) -> Child:
    """Has what is there now, and says so when asked."""
    before = digest_of(area)
    return Child(lambda: b"y" if digest_of(area) == before else b"n")


class Counting(threading.Thread):
    """Counts in one word of each of some pages, as fast as it can; no count may be lost."""

    def __init__(self, area: Area, at: int, pages: int) -> None:
        super().__init__(daemon=True)
        self.words = [ctypes.c_uint64.from_address(area.address + at + page * PAGE) for page in range(pages)]
        self.lost = 0

    def run(self) -> None:
        for number in range(1 << 62):
            for word in self.words:
                self.lost += word.value != number
                word.value = number + 1


class Registered:
    def __init__(self) -> None:
        self.large, self.passing = Area(LARGE), Area(PASSING)
        self.large.memory[LARGE // 2 : LARGE // 2 + MIB] = bytes(range(256)) * (MIB // 256)
        self.device = int(check(driver.cuMemAlloc(MIB)))
        self.counting = Counting(self.passing, 8 * MIB, 50)
        self.counting.start()
        check(driver.cuMemHostRegister(self.large.address + EDGE, LARGE - EDGE, 0))
        self.child = child_of(self.large)
        check(driver.cuMemHostRegister(self.passing.address, PASSING, driver.CU_MEMHOSTREGISTER_PORTABLE))

    def step(self, number: int) -> str:
        place = (number * 7 % 45) * MIB + PAGE
        check(driver.cuMemsetD8(self.large.address + place, number % 256, PAGE))  # by the GPU, in host memory
        ctypes.memset(self.large.address + place + 2 * PAGE, number % 256, PAGE)
        check(driver.cuMemcpyHtoD(self.device, self.large.address + place + 2 * PAGE, PAGE))
        check(driver.cuMemcpyDtoH(self.passing.address + number % 7 * MIB, self.device, PAGE))
        ctypes.memset(self.large.address, number % 256, 100)
        if number % 3 == 2:
            check(driver.cuMemHostUnregister(self.passing.address))
            self.passing.memory[: 10 * PAGE] = b"p" * (10 * PAGE)
            self.passing.memory.madvise(mmap.MADV_DONTNEED, PAGE, 4 * PAGE)
            check(driver.cuMemHostRegister(self.passing.address, PASSING, 0))
        assert self.counting.is_alive()
        assert self.counting.lost == 0
        digest = hashlib.blake2b(self.large.memory, digest_size=8)
        digest.update(memoryview(self.passing.memory)[: 8 * MIB])
        return f"{digest.hexdigest()} {number % 4 > 0 or self.child.ask() == b'y'}"


def main() -> None:
    arguments = pace.parser().parse_args()
    check(driver.cuInit(0))
    check(driver.cuCtxSetCurrent(check(driver.cuDevicePrimaryCtxRetain(0))))
    registered = Registered()
    for number in pace.steps(arguments):
        os.write(1, f"step {number} {registered.step(number)}\n".encode())
    os.write(1, f"child {registered.child.end()}\n".encode())
    os._exit(0)  # with a thread that goes on


if __name__ == "__main__":
    main()
