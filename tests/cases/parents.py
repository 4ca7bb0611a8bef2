"""A process that uses the driver and makes children of every kind; it must work on after each, and so must they."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from cuda.bindings import driver

from tests.cases.streams import Arguments, check, context, device_memory, function, launch, words

Check = Callable[[], Any]

LIBC = ctypes.CDLL(None, use_errno=True)
LOCKED = ctypes.PyDLL(None)
"""Called with the interpreter's lock held, so that a child made by a bare `clone` has it: where another thread took it
meanwhile, the child would wait for a thread that it lacks."""


def _reaped(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def fork_exit_at_once() -> int:
    pid = os.fork()
    if pid == 0:
        os._exit(3)
    return _reaped(pid)


def fork_exit() -> int:
    """With the exit handlers of every library."""
    pid = os.fork()
    if pid == 0:
        LIBC.exit(4)
    return _reaped(pid)


def fork_exec() -> int:
    pid = os.fork()
    if pid == 0:
        os.execv("/bin/sh", ["sh", "-c", "exit 5"])
    return _reaped(pid)


def vfork_exec() -> int:
    return subprocess.run(["/bin/sh", "-c", "exit 6"], close_fds=False, check=False).returncode


def raw_clone() -> int:
    """The system call itself: no fork handler runs."""
    pid = LOCKED.syscall(56, 17, 0, 0, 0, 0)
    if pid == 0:
        LOCKED.syscall(231, 7)
    return _reaped(pid)


def posix_spawn() -> int:
    return _reaped(os.posix_spawn("/bin/sh", ["sh", "-c", "exit 8"], os.environ))


def system() -> int:
    return os.waitstatus_to_exitcode(os.system("exit 9"))


def uses_the_driver() -> int:
    """A new program that uses the GPU itself."""
    program = (
        "from tests.cases.streams import *; context(); a = device_memory(); sys.exit(10 if words(a, 1) == [0] else 1)"
    )
    return subprocess.run([sys.executable, "-c", f"import sys; {program}"], check=False).returncode


WAYS = (fork_exit_at_once, fork_exit, fork_exec, vfork_exec, raw_clone, posix_spawn, system, uses_the_driver)


def _after(way: Callable[[], int]) -> Callable[[Path], Check]:
    def kind(_place: Path) -> Check:
        context()
        address, kernel = device_memory(), function(b"add")
        arguments = Arguments(ctypes.c_uint64(address), ctypes.c_uint32(1))

        def verify() -> list[int]:
            launch(kernel, arguments)
            check(driver.cuCtxSynchronize())
            return words(address, 1)

        first = way(), verify()

        def look() -> Any:
            return first, verify(), way(), verify()

        return look

    return kind


def workers(_place: Path) -> Check:
    """Four children forked after the driver was initialised, which sleep on a pipe."""
    context()
    address, kernel = device_memory(), function(b"add")
    ask, answer = os.pipe(), os.pipe()
    for _number in range(4):
        if os.fork() == 0:
            while got := os.read(ask[0], 1):
                os.write(answer[1], got.upper())
            os._exit(0)

    def look() -> Any:
        os.write(ask[1], b"work")
        said = "".join(sorted(os.read(answer[0], 1).decode() for _number in range(4)))
        launch(kernel, Arguments(ctypes.c_uint64(address), ctypes.c_uint32(1)))
        check(driver.cuCtxSynchronize())
        return said, words(address, 1)

    return look


def _sample(number: int) -> int:
    return number * 7 % 1000


def loader(_place: Path) -> Check:
    """Workers that prepare samples in order, in the middle of an epoch."""
    context()
    pool = multiprocessing.get_context("fork").Pool(4)
    samples: Iterator[int] = pool.imap(_sample, range(3000), chunksize=5)
    began = [next(samples) for _number in range(100)]
    return lambda: (began[-1], [next(samples) for _number in range(100)] == [], sum(next(samples) for _ in range(500)))


KINDS = {**{way.__name__: _after(way) for way in WAYS}, "workers": workers, "loader": loader}
