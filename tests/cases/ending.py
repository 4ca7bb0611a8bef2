"""A process that works on the GPU until it is told how to end: `ending.py FOLDER`.

It counts in device memory. In its folder `exit` makes it leave as programs do, `fault` launches a kernel that writes
where there is no memory, and reports what the driver says of it.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from pathlib import Path

from cuda.bindings import driver

from tests.cases.streams import Arguments, context, device_memory, function, launch, words


def say(text: str) -> None:
    os.write(1, f"{text}\n".encode())


def main() -> None:
    folder = Path(sys.argv[1])
    context()
    address, add = device_memory(), function(b"add")
    one, nowhere = (Arguments(ctypes.c_uint64(place), ctypes.c_uint32(1)) for place in (address, 0x1000))
    count = 0
    while not (folder / "exit").exists():
        if (folder / "fault").exists():
            launch(add, nowhere)
            say(driver.cuCtxSynchronize()[0].name)
            say(driver.cuMemsetD8(address, 0, 4)[0].name)
            sys.exit(9)
        launch(add, one)
        count += 1
        if words(address, 1) != [count]:
            raise RuntimeError(f"device memory holds {words(address, 1)}, not {count}")
        say(f"count {count}")
        time.sleep(0.005)
    say("left")


main()
