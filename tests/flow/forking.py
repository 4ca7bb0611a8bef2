"""Uses the driver, makes four children that read a pipe (`fork`, `clone`), and lets them work when a file appears.

With `opens` the last of them opens the first device file by itself; with `late` it is made only when there is a file
`late` beside the other.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from pathlib import Path
from typing import Any

from cuda.bindings import driver

LIBC = ctypes.CDLL(None, use_errno=True)
LOCKED = ctypes.PyDLL(None)
"""Called with the interpreter's lock held, so that a child made by a bare `clone` has it: where another thread took it
meanwhile, the child would wait for a thread that it lacks."""
CHILDREN = 4


def check(result: tuple[Any, ...]) -> Any:
    status, *values = result
    if status != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(status.name)
    return values[0] if len(values) == 1 else values


def numbers() -> list[int]:
    """The descriptors in use, as the program can see them."""
    return [number for number in range(2048) if LIBC.fcntl(number, 1) >= 0]


def child(number: int, asks: tuple[int, int], answers: tuple[int, int]) -> None:
    (ask, ours), (theirs, answer) = asks, answers
    os.close(ours)  # so that the parent's end is the end of the work
    os.close(theirs)
    if sys.argv[1] == "opens" and number == CHILDREN - 1:
        os.open(os.environ["TORPOR_SIM_DEVICE_FILES"].split(":")[0], os.O_RDWR)
    before = numbers()
    os.write(answer, b".")
    while got := os.read(ask, 1):
        status = driver.cuMemGetInfo()[0].name if sys.argv[1] != "clone" else "CUDA_ERROR_NOT_INITIALIZED"
        os.write(answer, b"%c %d %s\n" % (got.upper(), numbers() == before, status.encode()))
    os._exit(0)


def clone() -> int:
    """The system call itself: no fork handler runs."""
    return int(LOCKED.syscall(56, 17, 0, 0, 0, 0))


def wait_for(path: str) -> None:
    while not os.path.exists(path):
        time.sleep(0.01)


def main() -> None:
    check(driver.cuInit(0))
    check(driver.cuCtxSetCurrent(check(driver.cuDevicePrimaryCtxRetain(check(driver.cuDeviceGet(0))))))
    address = check(driver.cuMemAlloc(4096))
    check(driver.cuMemsetD32(address, 7, 1024))
    ask, answer = os.pipe(), os.pipe()
    at_once = CHILDREN - (sys.argv[1] == "late")
    for number in range(at_once):
        if (clone() if sys.argv[1] == "clone" else os.fork()) == 0:
            child(number, ask, answer)
    ready = b""
    while len(ready) < at_once:
        ready += os.read(answer[0], CHILDREN)
    print("ready", flush=True)
    wait_for(sys.argv[2] if at_once == CHILDREN else str(Path(sys.argv[2]).with_name("late")))
    if at_once < CHILDREN:
        if os.fork() == 0:
            child(CHILDREN - 1, ask, answer)
        os.read(answer[0], 1)
        print("forked", flush=True)
        wait_for(sys.argv[2])
    os.write(ask[1], b"work")
    said = b""
    while said.count(b"\n") < CHILDREN:
        said += os.read(answer[0], 4096)
    words = sorted((line.split() for line in said.decode().splitlines()), key=lambda one: "WORK".index(one[0]))
    print("work:", "".join(word[0] for word in words))
    print("numbers as before:", {word[1] for word in words} == {"1"})
    print(*{word[2] for word in words})
    word = bytearray(4)
    check(driver.cuMemcpyDtoH(word, int(address) + 4092, 4))
    print("parent:", int.from_bytes(word, "little"), flush=True)


main()
