"""Work that is under way at a checkpoint: `under_way.py WHAT FOLDER` says `ready`, then what came of it."""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable
from pathlib import Path

from cuda.bindings import driver

from tests.cases.streams import Arguments, check, context, device_memory, function, launch, words


def wait_for(path: Path) -> None:
    while not path.exists():
        time.sleep(0.005)


def spinning(folder: Path) -> None:
    """A kernel that runs until the host sets a word."""
    word = int(check(driver.cuMemHostAlloc(4096, 2)))
    ctypes.memset(word, 0, 4096)
    stream = check(driver.cuStreamCreate(1))
    launch(function(b"wait_for"), Arguments(ctypes.c_uint64(word)), stream)
    address = device_memory()
    launch(function(b"add"), Arguments(ctypes.c_uint64(address), ctypes.c_uint32(5)), stream)
    print("ready", flush=True)
    wait_for(folder / "go")
    ctypes.memset(word, 1, 1)
    check(driver.cuStreamSynchronize(stream))
    print(words(address, 1), flush=True)


def calling_back(folder: Path) -> None:
    """A host function that reads pinned memory written by a kernel before it, and takes its time."""
    host = int(check(driver.cuMemHostAlloc(4096, 2)))
    ctypes.memset(host, 0, 4096)
    stream = check(driver.cuStreamCreate(1))
    seen: list[int] = []

    def called(_data: object) -> None:
        print("ready", flush=True)
        time.sleep(2)
        seen.append(ctypes.c_uint32.from_address(host).value)
        ctypes.c_uint32.from_address(host + 8).value = 1

    callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(called)
    arguments = Arguments(ctypes.c_uint64(host), ctypes.c_uint32(9))
    launch(function(b"add"), arguments, stream)
    check(driver.cuLaunchHostFunc(stream, driver.CUhostFn(ctypes.cast(callback, ctypes.c_void_p).value), 0))
    launch(function(b"add"), arguments, stream)
    wait_for(folder / "go")
    check(driver.cuStreamSynchronize(stream))
    print(seen, [ctypes.c_uint32.from_address(host + at).value for at in (0, 8)], flush=True)


def capturing(folder: Path) -> None:
    stream = check(driver.cuStreamCreate(1))
    address, kernel = device_memory(), function(b"add")
    arguments = Arguments(ctypes.c_uint64(address), ctypes.c_uint32(5))
    check(driver.cuStreamBeginCapture(stream, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED))
    launch(kernel, arguments, stream)
    print("ready", flush=True)
    wait_for(folder / "go")
    launch(kernel, arguments, stream)
    ready = check(driver.cuGraphInstantiate(check(driver.cuStreamEndCapture(stream)), 0))
    check(driver.cuGraphLaunch(ready, stream))
    check(driver.cuStreamSynchronize(stream))
    print(words(address, 1), flush=True)


WAYS: dict[str, Callable[[Path], None]] = {one.__name__: one for one in (spinning, calling_back, capturing)}

if __name__ == "__main__":
    context()
    WAYS[sys.argv[1]](Path(sys.argv[2]))
