"""Question: how long does a job under load take to freeze, and does it ever notice?   Target: no wrong result.

The job is tests/native/load/load.cpp: threads that allocate, launch, synchronise, poll, load modules and exit at
random and check every result. Once in `--every` seconds it is suspended and resumed (`hbm`). Reported: the freeze's
time and the whole pause, and whether the job ended well.

    python bench/load.py [--threads 64] [--seconds 600] [--every 1] [--out results.json]
"""

from __future__ import annotations

import script

import argparse
import statistics
import time
from pathlib import Path

import machine

import torpor
from torpor import api
from torpor.bench import home, sources
from torpor.errors import TorporError

SOURCE = Path(__file__).parents[1] / "tests" / "native" / "load" / "load.cpp"


def rounds(job: torpor.Job) -> int:
    """How many rounds the job's threads have made by its last word."""
    lines = b"".join(job.logs()).decode().splitlines()
    return int(lines[-1].split()[1]) if lines else 0


def pause(job: torpor.Job, deadline: float) -> dict[str, float]:
    """One suspend and resume: seconds of the freeze and of the whole."""
    found = {"freeze": 0.0}

    def note(event: torpor.Progress) -> None:
        if event.event == "end" and event.phase == "freeze":
            found["freeze"] = event.seconds

    began = time.monotonic()
    job.suspend(tier="hbm", deadline=deadline, progress=note)
    job.resume()
    found["pause"] = time.monotonic() - began
    return found


def summary(seconds: list[float]) -> str:
    ordered = sorted(seconds)
    late = ordered[len(ordered) * 99 // 100]
    middle, late, last = (1000 * each for each in (statistics.median(ordered), late, ordered[-1]))
    return f"{middle:.1f} ms, 99 of 100 below {late:.1f}, longest {last:.1f}"


def main() -> None:
    arguments = script.options(__doc__)
    arguments.add_argument("--threads", type=script.whole(), default=64)
    arguments.add_argument("--seconds", type=script.number(), default=600)
    arguments.add_argument("--every", type=script.number(), default=1.0)
    arguments.add_argument("--deadline", type=script.number(0.1), default=30.0)
    options = arguments.parse_args()
    # In a home of its own: nothing is left of the job, wherever it is broken off.
    with home.own(api.default_backend()) as folder:
        program, stop = folder / "load", folder / "stop"
        sources.build("g++", program, "-std=c++20", "-O2", "-pthread", SOURCE, "-ldl")
        job = torpor.run([str(program), str(options.threads), str(stop)])
        pauses: list[dict[str, float]] = []
        try:
            measure(job, options, pauses)
        finally:  # also what is known when it is broken off
            if job.state == "suspended":
                job.resume()
            stop.touch()
            job.wait(120)
            tell(job, options, pauses)
        if job.exit_code != 0:
            raise TorporError("the job noticed")


def measure(job: torpor.Job, options: argparse.Namespace, pauses: list[dict[str, float]]) -> None:
    """Add pause to pause until its time is over or the job has ended."""
    began = time.monotonic()
    while not rounds(job) and job.exit_code is None:
        time.sleep(0.1)
    while time.monotonic() - began < options.seconds and job.exit_code is None:
        script.check()
        due = time.monotonic() + options.every
        pauses.append(pause(job, options.deadline))
        if len(pauses) % 60 == 0:
            print(f"{len(pauses)} pauses; freeze: {summary([each['freeze'] for each in pauses])}", flush=True)
        time.sleep(max(0.0, due - time.monotonic()))


def tell(job: torpor.Job, options: argparse.Namespace, pauses: list[dict[str, float]]) -> None:
    """What has been measured, and how the job ended."""
    last = (b"".join(job.logs()).decode(errors="replace").splitlines() or [""])[-1]
    print(f"{len(pauses)} pauses of {options.threads} threads; the job ended with {job.exit_code}")
    print(f"last words: {last}")
    for name in ("freeze", "pause") if pauses else ():
        print(f"{name}: {summary([each[name] for each in pauses])}", flush=True)
    found = {"machine": machine.describe(), "threads": options.threads, "pauses": pauses, "last": last}
    script.keep(options.out, found)


if __name__ == "__main__":
    script.run(main)
