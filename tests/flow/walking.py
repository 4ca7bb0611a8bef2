"""Jobs that walk (walk.py), what they print when nothing happens to them, and what a failed verb may leave: nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import torpor
from tests.conftest import eventually
from torpor import paths

PROGRAM = Path(__file__).with_name("walk.py")
STEPS = 150
DELAY = 0.01


def command(*more: str, steps: int = STEPS, delay: float = DELAY) -> list[str]:
    return [sys.executable, str(PROGRAM), "--steps", str(steps), "--delay", str(delay), *more]


def reference(*more: str, env: Mapping[str, str] | None = None, steps: int = STEPS) -> list[str]:
    """The sorted output of the program on the software GPU without Torpor (processes print in any order)."""
    library = paths.software_gpu()
    assert library is not None
    done = subprocess.run(
        command(*more, steps=steps, delay=0.0),
        env={**os.environ, **(env or {}), "LD_LIBRARY_PATH": str(library.parent)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return sorted(done.stdout.splitlines())


def output(job: torpor.Job) -> list[str]:
    """Sorted lines that the job printed so far."""
    return sorted(b"".join(job.logs()).decode().splitlines())


def printed(job: torpor.Job) -> int:
    return b"".join(job.logs()).count(b"\n")


def walk_on(job: torpor.Job, lines: int = 10) -> None:
    """Wait until the job has printed this many more lines; it must not have ended by then."""
    before = printed(job)
    eventually(lambda: printed(job) >= before + lines)
    assert job.state is torpor.JobState.RUNNING


def finish(job: torpor.Job) -> list[str]:
    """Wait for the job's good end; its sorted output."""
    assert job.wait(60)
    assert job.exit_code == 0, "\n".join(output(job)[-5:])
    return output(job)


def processes_of(home: Path) -> set[int]:
    """Processes that live in a job's mount namespace of this home: supervisors, programs, CRIU."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                mounts = (entry / "mountinfo").read_text()
            except OSError:
                continue
            if f"{home}/jobs/" in mounts:
                found.add(int(entry.name))
    return found


def traces(home: Path) -> dict[str, object]:
    """What a verb that failed must leave as it was: processes, mounts, files (but for logs and the pinned pool)."""
    mounts = Path("/proc/self/mountinfo").read_text()
    return {
        "processes": processes_of(home),
        "mounts": [line for line in mounts.splitlines() if str(home) in line],
        "home": files(home),
        "dram": {name for name in files(paths.dram_dir()) if not name.startswith(".pool") and name != ".jobs"},
    }


def files(folder: Path) -> set[str]:
    """Files and folders below `folder`, without logs, the keeper's own, and the folder for images itself."""
    found = {str(path.relative_to(folder)) for path in folder.rglob("*")} - {"images"}
    return {
        name for name in found if not name.startswith("keeper") and not name.endswith(".log") and "/criu" not in name
    }
