"""A program for TORPOR_CRIU: runs the real one, and fails or is killed as a mode file says.

The file is beside this program's own link; it is read at each run and removed, so that the next run is a good one.
"""

from __future__ import annotations

import os
import shlex
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

SCRIPT = """#!/bin/sh
exec {command} "$@"
"""


def install(folder: Path, real: Sequence[str]) -> Path:
    """A CRIU in `folder` that obeys `folder / "mode"`; returns its path. `real` is how the real one is called."""
    program = folder / "criu"
    ours = (sys.executable, "-I", "-S", str(Path(__file__).resolve()), str(folder / "mode"), str(len(real)))
    program.write_text(SCRIPT.format(command=shlex.join([*ours, *real])))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


def main() -> None:
    file, length, *words = sys.argv[1:]
    real, arguments = words[: int(length)], words[int(length) :]
    if "--version" in arguments or not os.path.exists(file):
        os.execv(real[0], words)
    mode = Path(file).read_text()
    Path(file).unlink()
    kind, _, when = mode.partition(" ")
    if kind == "exit":
        sys.exit(int(when))
    running = subprocess.Popen(words, close_fds=False)
    if when == "written":
        # CRIU starts its script as the last thing; the script waits for the verdict.
        while running.poll() is None and not any(b"post-dump" in _command(one) for one in _children(running.pid)):
            time.sleep(0.001)
        time.sleep(0.02)
    else:
        time.sleep(int(when) / 1000)
    running.kill()
    running.wait()
    os.kill(os.getpid(), signal.SIGKILL)


def _children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


if __name__ == "__main__":
    main()
