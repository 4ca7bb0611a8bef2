"""Children that begin to use the driver at any moment: `late.py COUNT FOLDER`. The parent asks for the number of GPUs
before anybody initialised the driver, says what it was told, and what its children found."""

from __future__ import annotations

import os
import random
import sys
import time
from pathlib import Path

from cuda.bindings import driver


def work(delay: float, folder: Path) -> None:
    time.sleep(delay)
    from tests.cases.streams import check, context, device_memory, words

    context()
    address = device_memory()
    check(driver.cuMemsetD32(address, os.getpid(), 4))
    while not (folder / "go").exists():
        time.sleep(0.01)
    os._exit(0 if words(address) == [os.getpid()] * 4 else 1)


def main() -> None:
    count, folder = int(sys.argv[1]), Path(sys.argv[2])
    print(driver.cuDeviceGetCount()[0].name, flush=True)
    chosen = random.Random(4)
    children = []
    for _number in range(count):
        pid = os.fork()
        if pid == 0:
            try:
                work(chosen.uniform(0, 4), folder)
            finally:
                os._exit(2)
        chosen.random()
        children.append(pid)
    print("ready", flush=True)
    found = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
    while not (folder / "go").exists():
        time.sleep(0.01)
    print(sorted(set(found)), flush=True)


main()
