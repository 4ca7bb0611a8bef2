"""Question: how long does a job under load take to freeze, and does it ever notice?   Target: no wrong result.

The job is tests/native/load/load.cpp: threads that allocate, launch, synchronise, poll, load modules and exit at
random and check every result. Once in `--every` seconds it is suspended and resumed (`hbm`). Reported: the freeze's
time and the whole pause, and whether the job ended well.

    python bench/load.py [--threads 64] [--seconds 600] [--every 1] [--out results.json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import machine

import torpor

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
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--threads", type=int, default=64)
    arguments.add_argument("--seconds", type=float, default=600)
    arguments.add_argument("--every", type=float, default=1.0)
    arguments.add_argument("--deadline", type=float, default=30.0)
    arguments.add_argument("--out", type=Path)
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        program, stop = Path(folder) / "load", Path(folder) / "stop"
        subprocess.run(["g++", "-std=c++20", "-O2", "-pthread", "-o", program, SOURCE, "-ldl"], check=True)
        job = torpor.run([str(program), str(options.threads), str(stop)])
        began = time.monotonic()
        while not rounds(job):
            time.sleep(0.1)
        pauses = []
        try:
            while time.monotonic() - began < options.seconds and job.exit_code is None:
                due = time.monotonic() + options.every
                pauses.append(pause(job, options.deadline))
                if len(pauses) % 60 == 0:
                    print(f"{len(pauses)} pauses; freeze: {summary([each['freeze'] for each in pauses])}", flush=True)
                time.sleep(max(0.0, due - time.monotonic()))
        except KeyboardInterrupt:
            print("broken off")
        stop.touch()
        job.wait(120)
        output = b"".join(job.logs()).decode().splitlines()
    well = job.exit_code == 0
    print(f"{len(pauses)} pauses of {options.threads} threads; the job ended with {job.exit_code}")
    print(f"last words: {output[-1]}")
    for name in ("freeze", "pause"):
        print(f"{name}: {summary([each[name] for each in pauses])}")
    if options.out:
        found = {"machine": machine.describe(), "threads": options.threads, "pauses": pauses, "last": output[-1]}
        options.out.write_text(json.dumps(found, indent=1))
    job.remove()
    if not well:
        raise SystemExit("the job noticed")


if __name__ == "__main__":
    main()
