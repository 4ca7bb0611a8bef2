"""Two processes that count together, each in device memory of its own: a tick is told when both have made it.

`TORPOR_SIM_FAULT` is for the second one only. When that one is gone the first counts on alone, and says so once.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

SECOND = sys.argv[2:] == ["second"]
FAULT = None if SECOND else os.environ.pop("TORPOR_SIM_FAULT", None)  # before anything of ours could load the driver

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

from count import Counter, check, driver  # noqa: E402


def counter(pages: int) -> Counter:
    check(driver.cuInit(0))
    check(driver.cuCtxSetCurrent(check(driver.cuDevicePrimaryCtxRetain(0))))
    return Counter(pages=pages, page_bytes=1 << 20)


def second(pages: int) -> None:
    mine = counter(pages)
    for _line in sys.stdin:
        os.write(1, f"{mine.step()}\n".encode())


def first(pages: int) -> None:
    env = {**os.environ, "TORPOR_SIM_FAULT": FAULT} if FAULT else None
    pipe = subprocess.PIPE
    argv = [sys.executable, __file__, str(pages), "second"]
    other = subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True, bufsize=1, env=env)
    mine, together = counter(pages), True
    while True:
        count = mine.step()
        if together:
            together = _stepped(other, count)
        os.write(1, f"count {count}\n".encode())
        time.sleep(0.005)


def _stepped(other: subprocess.Popen[str], count: int) -> bool:
    """Whether the other made the same step; False when it has been killed."""
    assert other.stdin is not None
    assert other.stdout is not None
    try:
        other.stdin.write("step\n")
        other.stdin.flush()
    except BrokenPipeError:
        pass
    answer = other.stdout.readline()
    if answer == f"{count}\n":
        return True
    if answer or other.wait() != -9:
        raise RuntimeError(f"the second process says {answer!r} at {count}, status {other.poll()}")
    os.write(1, b"alone\n")
    return False


if SECOND:
    second(int(sys.argv[1]))
else:
    first(int(sys.argv[1]))
