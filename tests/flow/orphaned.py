"""Two processes that share an event whose maker has ended, and take turns with it.

The parent starts a child that makes the event and ends, and one that opens it, too. In every step each records
the event behind a write to shared memory, and the other finds the write because its stream waits for the event.
"""

from __future__ import annotations

import ctypes
import hashlib
import multiprocessing
import os
from multiprocessing.connection import Connection
from typing import Any

import pace
from cuda.bindings import driver
from sharing import BETWEEN_PROCESSES, check, start_up

SIZE = 3 << 20


def maker(pipe: Connection) -> None:
    start_up()
    event = check(driver.cuEventCreate(BETWEEN_PROCESSES))
    pipe.send(ctypes.string_at(check(driver.cuIpcGetEventHandle(event)).getPtr(), 64))
    pipe.recv()


def opened(raw: bytes) -> Any:
    handle = driver.CUipcEventHandle()
    ctypes.memmove(handle.getPtr(), raw, len(raw))
    return check(driver.cuIpcOpenEventHandle(handle))


class Side:
    def __init__(self, event: bytes, memory: int) -> None:
        self.event, self.memory = opened(event), memory
        self.stream = check(driver.cuStreamCreate(1))
        self.slot = check(driver.cuMemHostAlloc(64, 0))

    def write(self, data: bytes) -> None:
        ctypes.memmove(self.slot, data, len(data))
        check(driver.cuMemsetD8Async(self.memory, data[0], SIZE, self.stream))
        check(driver.cuMemcpyHtoDAsync(self.memory, self.slot, len(data), self.stream))
        check(driver.cuEventRecord(self.event, self.stream))

    def read(self, size: int) -> bytes:
        data = bytearray(size)
        check(driver.cuStreamWaitEvent(self.stream, self.event, 0))
        check(driver.cuMemcpyDtoHAsync(data, self.memory, size, self.stream))
        check(driver.cuStreamSynchronize(self.stream))
        return bytes(data)


def child(pipe: Connection) -> None:
    start_up()
    event, raw = pipe.recv()
    handle = driver.CUipcMemHandle()
    ctypes.memmove(handle.getPtr(), raw, len(raw))
    side = Side(event, int(check(driver.cuIpcOpenMemHandle(handle, 1))))
    pipe.send(None)
    while (expected := pipe.recv()) is not None:
        if side.read(len(expected)) != expected:
            raise RuntimeError("the child does not see what was written")
        side.write(expected[::-1])
        pipe.send(os.getpid())


def main() -> None:
    arguments = pace.parser().parse_args()
    spawning = multiprocessing.get_context("spawn")
    pipe, its_end = spawning.Pipe()
    making, makers_end = spawning.Pipe()
    first = spawning.Process(target=maker, args=(makers_end,))
    other = spawning.Process(target=child, args=(its_end,))
    first.start()
    other.start()
    start_up()
    event = making.recv()
    memory = int(check(driver.cuMemAlloc(SIZE)))
    side = Side(event, memory)
    pipe.send((event, ctypes.string_at(check(driver.cuIpcGetMemHandle(memory)).getPtr(), 64)))
    pipe.recv()
    making.send(None)
    first.join()
    for number in pace.steps(arguments):
        data = hashlib.blake2b(str(number).encode(), digest_size=32).digest()
        side.write(data)
        pipe.send(data)
        pipe.recv()
        if side.read(len(data)) != data[::-1]:
            raise RuntimeError("the parent does not see what was written")
        os.write(1, f"step {number} {data.hex()[:16]}\n".encode())
    pipe.send(None)
    other.join()


if __name__ == "__main__":
    main()
