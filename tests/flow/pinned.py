"""A program with much pinned host memory, written by the GPU, by itself, and by a forked child without CUDA.

A graph that was made at the start copies from it and to it, too.

Prints a digest per step. Two runs print the same.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
from collections.abc import Callable
from functools import partial
from typing import Any

import pace
from cuda.bindings import driver

MIB = 1 << 20
LARGE, SHARED, PASSING = 96 * MIB + 4096, 8 * MIB, 5 * MIB
USED = 4 * MIB
"""Bytes at both ends of the large piece that are not zero."""


def check(result: tuple[Any, ...]) -> Any:
    status, *values = result
    if status != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(status.name)
    return values[0] if len(values) == 1 else values


class Child:
    """Answers whenever it is asked."""

    def __init__(self, answer: Callable[[], bytes]) -> None:
        (told, self.tell), (self.answers, own) = os.pipe(), os.pipe()
        self.pid = os.fork()
        if self.pid:
            os.close(told)
            os.close(own)
            return
        os.close(self.tell)
        os.close(self.answers)
        while os.read(told, 1):
            os.write(own, answer())
        os._exit(0)

    def ask(self) -> bytes:
        os.write(self.tell, b"x")
        return os.read(self.answers, 1)

    def end(self) -> int:
        os.close(self.tell)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def add_one(address: int) -> bytes:
    """To every byte of the first page of some memory."""
    page = ctypes.string_at(address, 4096)
    ctypes.memmove(address, bytes((byte + 1) % 256 for byte in page), 4096)
    return b"x"


class Pinned:
    def __init__(self) -> None:
        self.large = int(check(driver.cuMemHostAlloc(LARGE, driver.CU_MEMHOSTALLOC_PORTABLE)))
        self.shared = int(check(driver.cuMemAllocHost(SHARED)))
        self.device = int(check(driver.cuMemAlloc(MIB)))
        self.child = Child(partial(add_one, self.shared))
        self.passing = int(check(driver.cuMemHostAlloc(PASSING, 0)))  # which the child does not keep
        self.stream = check(driver.cuStreamCreate(1))
        self.graph = self.make_graph()
        for at in (0, LARGE - USED):
            check(driver.cuMemsetD32(self.large + at, 0xC0FFEE, USED // 4))

    def make_graph(self) -> Any:
        """Copies the second page of the shared memory to its third, by way of the device, and fills a fourth."""
        check(driver.cuStreamBeginCapture(self.stream, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED))
        check(driver.cuMemcpyHtoDAsync(self.device, self.shared + 4096, 4096, self.stream))
        check(driver.cuMemcpyDtoHAsync(self.shared + 8192, self.device, 4096, self.stream))
        check(driver.cuMemsetD8Async(self.shared + 12288, 5, 4096, self.stream))
        return check(driver.cuGraphInstantiate(check(driver.cuStreamEndCapture(self.stream)), 0))

    def step(self, number: int) -> str:
        place = self.large + (LARGE - USED if number % 2 else 0) + number * 4096 % USED
        check(driver.cuMemsetD8(place, number % 256, 4096))  # by the GPU, in host memory
        ctypes.memset(self.shared + 4096, number % 256, 4096)
        ctypes.memset(self.shared + 8192, 0, 8192)
        check(driver.cuGraphLaunch(self.graph, self.stream))
        check(driver.cuStreamSynchronize(self.stream))
        copied = set(ctypes.string_at(self.shared + 8192, 4096)), set(ctypes.string_at(self.shared + 12288, 4096))
        assert copied == ({number % 256}, {5}), copied
        check(driver.cuMemcpyDtoHAsync(self.passing, self.device, 4096, 0))
        check(driver.cuCtxSynchronize())
        assert self.child.ask() == b"x"
        digest = hashlib.blake2b(digest_size=8)
        middle, end = self.large + LARGE // 2, self.large + LARGE - USED
        seen = ((self.large, USED), (middle, 4096), (end, USED), (self.shared, MIB), (self.passing, 8192))
        for address, size in seen:
            digest.update((ctypes.c_char * size).from_address(address))
        if number % 3 == 0:
            check(driver.cuMemFreeHost(self.passing))
            self.passing = int(check(driver.cuMemHostAlloc(PASSING, 0)))
        return digest.hexdigest()


def main() -> None:
    arguments = pace.parser().parse_args()
    check(driver.cuInit(0))
    check(driver.cuCtxSetCurrent(check(driver.cuDevicePrimaryCtxRetain(0))))
    pinned = Pinned()
    for number in pace.steps(arguments):
        os.write(1, f"step {number} {pinned.step(number)}\n".encode())
    os.write(1, f"child {pinned.child.end()}\n".encode())


if __name__ == "__main__":
    main()
