"""Runs `holder.py` natively and as a job that is put to sleep between its rounds, and compares what it found."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import torpor
from tests.conftest import REPOSITORY, eventually
from torpor import paths
from torpor.records import JobState

PROGRAM = Path(__file__).with_name("holder.py")
ENVIRONMENT = {"PYTHONPATH": str(REPOSITORY), "PYTHONUNBUFFERED": "1"}


def command(group: str, folder: Path, rounds: int, *kinds: str) -> list[str]:
    return [sys.executable, str(PROGRAM), group, str(folder), str(rounds), *kinds]


def native(group: str, folder: Path, rounds: int, *kinds: str) -> list[str]:
    """What the kinds find when nothing happens to them."""
    library = paths.software_gpu()
    assert library is not None
    folder.mkdir()
    for number in range(rounds):
        (folder / f"go-{number}").touch()
    mark = f"TORPOR_CASES_RUN={uuid.uuid4().hex}"
    try:
        done = subprocess.run(
            ["env", mark, *command(group, folder, rounds, *kinds)],
            env={**os.environ, **ENVIRONMENT, "LD_LIBRARY_PATH": str(library.parent)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
    finally:
        left = end_marked(mark.encode())
    assert done.returncode == 0, done.stderr
    assert left == [], "a native run left processes behind"
    lines = done.stdout.splitlines()
    assert lines[0] == "ready", lines
    assert lines[-1] == "end", lines
    assert not any("Traceback" in line or "Error" in line for line in lines), lines
    return lines


def end_marked(mark: bytes) -> list[str]:
    """Kill every process with this in its environment, and those that they make meanwhile; their command lines."""
    found: list[str] = []
    while alive := [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _has(pid, mark)]:
        for pid in alive:
            with contextlib.suppress(OSError):
                found.append(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
                os.kill(pid, signal.SIGKILL)
    return found


def _has(pid: int, mark: bytes) -> bool:
    """Not one that is ending: its environment is gone before it is."""
    try:
        return mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def begin(group: str, folder: Path, rounds: int, *kinds: str) -> torpor.Job:
    """The kinds in a job, set up and waiting."""
    folder.mkdir()
    job = torpor.run(command(group, folder, rounds, *kinds), name="holder", gpu="sim", env=ENVIRONMENT)
    eventually(lambda: "ready" in output(job) or job.state is not JobState.RUNNING)
    assert output(job) == ["ready"]
    return job


def cycled(
    group: str, folder: Path, rounds: int, *kinds: str, between: Callable[[torpor.Image], object] | None = None
) -> list[str]:
    """What the kinds find when the job is put to sleep and woken before each round; `between` runs while it sleeps."""
    job = begin(group, folder, rounds, *kinds)
    for number in range(rounds):
        image = job.checkpoint(tier="dram")
        assert job.state is JobState.ASLEEP
        if between is not None:
            between(image)
        job = torpor.restore(image)
        image.remove()
        (folder / f"go-{number}").touch()
        done = f"{number} done"
        eventually(lambda done=done, job=job: done in output(job) or job.state is not JobState.RUNNING)
    assert job.wait(100)
    assert job.exit_code == 0, output(job)
    return output(job)


def output(job: torpor.Job) -> list[str]:
    return b"".join(job.logs()).rpartition(b"\n")[0].decode().splitlines()
