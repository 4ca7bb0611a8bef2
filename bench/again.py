"""Question: does anything grow when a job is put to sleep and woken over and over?   Target: nothing, exact results.

A program of examples/ is checkpointed, killed and restored `--cycles` times, and as often suspended and resumed (`hbm`
and `dram` in turns), with steps of its own in between. After each cycle: seconds, the image's bytes, and what the job's
processes and the keeper hold. The second cycle is what the later ones are compared with. In the end every line that the
job printed must be that of a run that nobody disturbed.

    python bench/again.py [--cycles 20] [--program train|count] [--out results.json]
"""

from __future__ import annotations

import script

import argparse
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import machine

import torpor
from torpor import api, paths
from torpor.bench import children, home, parts
from torpor.bench.cycles import last_step, wait_past
from torpor.bench.held import Held, held, processes_of
from torpor.keeper.client import KeeperClient

EXAMPLES = Path(__file__).parents[1] / "examples"
PROGRAMS = {"train": ("train.py", "--hold-gib", "1", "--steps"), "count": ("count.py", "--to")}
"""File and arguments; the last one takes the number of steps."""

MANY = 1_000_000
"""More steps than any run comes to."""


def command(program: str, steps: int, delay: float) -> list[str]:
    """The program, with seconds of rest after each step."""
    name, *words = PROGRAMS[program]
    return [sys.executable, str(EXAMPLES / name), "--delay", str(delay), *words, str(steps)]


class Job:
    """The job, which changes its name with each restore."""

    def __init__(self, program: str) -> None:
        self.now = torpor.run(command(program, MANY, 0.02))
        self._name, self._woken = self.now.name, 0
        wait_past(self.now, 3)

    def reborn(self) -> dict[str, Any]:
        """Checkpointed, killed, restored."""
        began = time.perf_counter()
        image = self.now.checkpoint(tier="dram")
        saved = time.perf_counter()
        self._woken += 1
        old, self.now = self.now, torpor.restore(image, name=f"{self._name}-again{self._woken}")
        woken = time.perf_counter()
        size = image.manifest.cpu_bytes + image.manifest.gpu_bytes
        old.remove()
        image.remove()
        return {"seconds": [saved - began, woken - saved], "image": size}

    def slept(self, tier: str) -> dict[str, Any]:
        """Suspended and resumed."""
        began = time.perf_counter()
        self.now.suspend(tier=tier)
        asleep = time.perf_counter()
        self.now.resume()
        return {"seconds": [asleep - began, time.perf_counter() - asleep], "image": 0}


def settled(earlier: tuple[Held, Held] | None) -> tuple[Held, Held]:
    """What the job's processes and the keeper hold; what is in the midst of something holds more for a moment."""
    keeper = int(KeeperClient(api.default_backend()).call("status")["pid"])
    end = time.monotonic() + 10
    while True:
        found = held(processes_of(paths.home())), held({keeper})
        if earlier is None or time.monotonic() > end:
            return found
        if all(now.is_no_more_than(then) for now, then in zip(found, earlier, strict=True)):
            return found
        time.sleep(0.05)


def undisturbed(lines: list[str], program: str) -> bool:
    """Whether these are the first lines of a run that nobody disturbs."""
    library = paths.software_gpu() if api.default_backend() == "sim" else None
    env = os.environ | ({"LD_LIBRARY_PATH": str(library.parent)} if library else {})
    argv = command(program, len(lines) - 1, 0)  # a line for each step, one before the first, one after the last
    status, said = children.output(argv, environment=env)
    return status == 0 and lines == said.splitlines()[:-1]


def row(number: int, one: dict[str, Any]) -> str:
    """A line of the table."""
    cells = [f"{each:.2f}" for each in one["seconds"]] + [f"{one['image'] / (1 << 20):.0f}"]
    for who in ("job", "keeper"):
        counts = one[who]
        resident = round(counts["resident"] / (1 << 20))
        cells.append(f"{counts['descriptors']} · {counts['mappings']} · {counts['threads']} · {resident}")
    return f"| {number} | {' | '.join(cells)} |"


def main() -> None:
    arguments = script.options(__doc__)
    arguments.add_argument("--cycles", type=script.whole(2), default=20, help="2 or more")
    arguments.add_argument("--program", choices=PROGRAMS, default="train")
    options = arguments.parse_args()
    if options.program == "train" and not parts.has("torch"):
        arguments.error("--program train needs PyTorch, which is not installed; --program count does not")
    with home.own(api.default_backend()):  # nothing is left of the jobs, wherever it is broken off
        faults = measure(options)
    for fault in faults:
        print(f"FAILED {fault}")
    raise SystemExit(bool(faults))


def measure(options: argparse.Namespace) -> list[str]:
    """Both ways, printed and written as they are done; what was found to be wrong."""
    faults: list[str] = []
    results: dict[str, list[dict[str, Any]]] = {}
    for way in ("checkpoint, restore", "suspend, resume"):
        job = Job(options.program)
        rows = results[way] = []
        second: tuple[Held, Held] | None = None
        for number in range(1, options.cycles + 1):
            script.check()
            cycle = job.reborn() if way.startswith("checkpoint") else job.slept("hbm" if number % 2 else "dram")
            wait_past(job.now, last_step(job.now) + 3)
            counts = settled(second)
            if number == 2:
                second = counts
            rows.append(cycle | {"job": vars(counts[0]), "keeper": vars(counts[1])})
            if second and not all(now.is_no_more_than(then) for now, then in zip(counts, second, strict=True)):
                faults.append(f"{way}: after cycle {number}, {counts} are held, after the second {second}")
        job.now.kill(9)
        job.now.wait(60)
        printed = b"".join(job.now.logs()).rpartition(b"\n")[0].decode().splitlines()
        job.now.remove()
        if not undisturbed(printed, options.program):
            faults.append(f"{way}: the job printed other lines than natively")
        middle = len(rows) // 2
        halves = [statistics.median(sum(one["seconds"]) for one in part) for part in (rows[:middle], rows[middle:])]
        print(f"{way}: {len(printed)} lines; a cycle took {halves[0]:.2f} s in the first half, {halves[1]:.2f} s later")
        print("Job and keeper: descriptors · mappings · threads · MiB resident.")
        print("| cycle | asleep after s | awake after s | image MiB | job | keeper |")
        print("| --- | --- | --- | --- | --- | --- |")
        for number, one in enumerate(rows, 1):
            if number in (1, 2, 3, 5, 10, options.cycles):
                print(row(number, one), flush=True)
        script.keep(options.out, {"machine": machine.describe(), "cycles": results})
    return faults


if __name__ == "__main__":
    script.run(main)
