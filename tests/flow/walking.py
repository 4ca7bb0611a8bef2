"""Jobs that walk (walk.py), what they print when nothing happens to them, and what a failed verb may leave: nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import torpor
from tests.conftest import eventually
from torpor import paths
from torpor.bench.held import processes_of as processes_of

PROGRAM = Path(__file__).with_name("walk.py")
STEPS = 40
"""Programs end after a multiple of it."""

DELAY = 0.02


def may_end() -> Path:
    """The file that lets the programs of this home come to their end."""
    return paths.home() / "may-end"


def program(name: str, *arguments: str) -> list[str]:
    """The command of another program in this folder."""
    return [sys.executable, str(PROGRAM.with_name(name)), *arguments]


def paced(name: str, *arguments: str, steps: int = STEPS, delay: float = DELAY) -> list[str]:
    """The command of another program in this folder that takes steps and ends when it may."""
    pace = ("--steps", str(steps), "--delay", str(delay), "--until", str(may_end()))
    return program(name, *arguments, *pace)


def command(*more: str, delay: float = DELAY) -> list[str]:
    """The program, which ends when it may."""
    return paced(PROGRAM.name, *more, delay=delay)


@cache
def _printed(argv: tuple[str, ...], devices: str | None) -> list[str]:
    """What a program prints on the software GPU without Torpor, where there are so many `devices`."""
    library = paths.software_gpu()
    assert library is not None
    env = {**os.environ, "LD_LIBRARY_PATH": str(library.parent), "TORPOR_SIM_DEVICES": devices or "1"}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


class Reference:
    """What a program prints when nothing happens to it. Equals the sorted lines of one, however many steps it took."""

    def __init__(self, name: str, *arguments: str) -> None:
        self._argv = program(name, *arguments)
        self._devices = os.environ.get("TORPOR_SIM_DEVICES")
        self._told = ""

    def after(self, steps: int) -> list[str]:
        """Its lines, when each process takes so many steps."""
        return _printed((*self._argv, "--steps", str(steps)), self._devices)

    def __eq__(self, found: object) -> bool:
        assert isinstance(found, list)
        taken: dict[str, int] = {}
        for who, number in filter(None, map(_step, found)):
            taken[who] = max(taken.get(who, 0), number + 1)
        expected = []
        for who, steps in taken.items():
            lines = self.after(steps)
            expected += [line for line in lines if line.split()[0] == who] if len(taken) > 1 else lines
        longest = self.after(max(taken.values(), default=STEPS))
        everybody = {step[0] for step in map(_step, longest) if step is not None}
        self._told = f"{sorted(everybody)}, {[line for line in sorted(expected) if line not in found][:5]}"
        return set(taken) == everybody and found == sorted(expected)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"the undisturbed lines, of which there were missing: {self._told}"


def _step(line: str) -> tuple[str, int] | None:
    """Who took which step, of a line that tells of one."""
    words = line.split()
    if words and words[0].isdigit():
        return "", int(words[0])
    return (words[0], int(words[1])) if len(words) > 1 and words[1].isdigit() else None


def reference(*more: str) -> Reference:
    """Of the walk (its processes print in any order)."""
    return Reference(PROGRAM.name, *more)


def output(job: torpor.Job) -> list[str]:
    """Sorted lines that the job printed so far, those that are whole."""
    return sorted(b"".join(job.logs()).rpartition(b"\n")[0].decode().splitlines())


def printed(job: torpor.Job) -> int:
    return b"".join(job.logs()).count(b"\n")


def walk_on(job: torpor.Job, lines: int = 10) -> None:
    """Wait until the job has printed this many more lines; it must not have ended by then."""
    before = printed(job)
    eventually(lambda: printed(job) >= before + lines)
    assert job.state is torpor.JobState.RUNNING


def finish(job: torpor.Job) -> list[str]:
    """Let the job come to its end, which must be a good one; its sorted output."""
    may_end().touch()
    assert job.wait(100)
    assert job.exit_code == 0, "\n".join(output(job)[-5:])
    return output(job)


def through_a_store(job: torpor.Job, url: str) -> torpor.Job:
    """Twice, killed each time; the job that woke last."""
    with torpor.create_store(url) as store:
        for _time in range(2):
            walk_on(job, 5)
            put = store.checkpoint(job)
            image = store.image(put.image.head.name)
            image.verify()
            job = torpor.restore(image)
    return job


def traces(home: Path) -> dict[str, object]:
    """What a verb that failed must leave as it was: processes, mounts, files (but for logs and the pinned pool)."""
    mounts = Path("/proc/self/mountinfo").read_text()
    return {
        "processes": processes_of(home),
        "mounts": [line for line in mounts.splitlines() if str(home) in line],
        "home": files(home),
        # The folders of the pool and of each home's suspended jobs stay.
        "dram": {
            name
            for name in files(paths.dram_dir())
            if not name.startswith(".pool") and not (name.startswith(".jobs") and name.count("/") < 2)
        },
    }


def files(folder: Path) -> set[str]:
    """Files and folders below `folder`, without logs, the keeper's own, and the folder for images itself."""
    found = {str(path.relative_to(folder)) for path in folder.rglob("*")} - {"images"}
    return {
        name for name in found if not name.startswith("keeper") and not name.endswith(".log") and "/criu" not in name
    }
