"""Two processes that wait for each other's interprocess events in a loop, or one that waits for the other's.

`peers.py both FOLDER` is a parent and its child, each waiting for what the other recorded; `owner` records alone, and
`guest` waits for what the owner recorded. Until the file `go` appears in the folder, and `close` makes each destroy the
events that it opened; then each says how it stands.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cuda.bindings import driver

from tests.cases.streams import check, context

FLAGS = 2 | 4  # without timing, interprocess


def published(folder: Path, name: str) -> Any:
    """An event of ours, whose handle others find in the folder."""
    event = check(driver.cuEventCreate(FLAGS))
    handle = check(driver.cuIpcGetEventHandle(event))
    (folder / f"{name}.new").write_bytes(ctypes.string_at(handle.getPtr(), 64))
    (folder / f"{name}.new").rename(folder / name)
    return event


def opened(folder: Path, name: str) -> Any:
    path = folder / name
    while not path.exists():
        time.sleep(0.005)
    handle = driver.CUipcEventHandle()
    ctypes.memmove(handle.getPtr(), path.read_bytes(), 64)
    return check(driver.cuIpcOpenEventHandle(handle))


def loop(folder: Path, own: Any, other: Any, say: Callable[[str], None]) -> None:
    stream = check(driver.cuStreamCreate(1))
    rounds = 0
    while not (folder / "go").exists():
        if own is not None:
            check(driver.cuEventRecord(own, stream))
        if other is not None and (folder / "close").exists():
            check(driver.cuEventDestroy(other))
            other = None
            say("closed")
        if other is not None:
            check(driver.cuStreamWaitEvent(stream, other, 0))
        check(driver.cuStreamSynchronize(stream))
        rounds += 1
        if rounds == 3:
            say("ready")
        time.sleep(0.002)
    say("good" if rounds > 3 else "stuck")


def main() -> None:
    role, folder = sys.argv[1], Path(sys.argv[2])

    def say(word: str) -> None:
        os.write(1, f"{role} {word}\n".encode())  # in one piece, whoever else writes

    child = None
    if role == "both":
        child = subprocess.Popen([sys.executable, __file__, "child", str(folder)])
    context()
    own = None if role == "guest" else published(folder, role)
    other = {"both": "child", "child": "both", "guest": "owner", "owner": None}[role]
    loop(folder, own, None if other is None else opened(folder, other), say)
    if child is not None and child.wait() != 0:
        raise RuntimeError("the child failed")


main()
