"""Question: does a call take longer in a process under Torpor than it takes in the next native process?

Where a process's memory comes to lie changes its speed for as long as it lives, by more than the layer costs. So each
way has several fresh processes (bench/native/calls.c), in turns and on one core, and every one is shown: the second of
two batches of its calls, in nanoseconds a call. `kernels` is `torpor profile --kernels`, which times each kernel.

    python bench/one_call.py [--call mark] [--ways native,control,…] [--turns 4] [--calls N] [--core N] [--out FILE]
"""

from __future__ import annotations

import script

import argparse
import os
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from torpor import api
from torpor.bench import children, home, machine, sources
from torpor.bench.settings import CONTROL, NATIVE, Settings

TORPOR = (sys.executable, "-m", "torpor")
WAYS: dict[str, Sequence[str]] = {
    NATIVE: (),
    CONTROL: (),
    "off --no-arena": (*TORPOR, "run", "--vm", "off", "--no-arena", "--"),
    **{level: (*TORPOR, "run", "--vm", level, "--") for level in ("off", "answers", "defer", "full")},
    "kernels": (*TORPOR, "profile", "--kernels", "--"),
}
USUAL = (NATIVE, CONTROL, "off --no-arena", "off", "answers")


def time_of_one(program: Path, way: str, options: argparse.Namespace, settings: Settings) -> float:
    """Nanoseconds a call in a fresh process, whose own lines come first; those of a profile's report follow."""
    command = [*WAYS[way], "taskset", "-c", str(options.core), str(program)]
    environment = None if WAYS[way] else settings.environment()
    status, said = children.output(command, f"{options.call} {options.calls}\n" * 2, environment)
    if status:
        raise SystemExit(f"{way}: `{' '.join(command)}` ended with {status}")
    return float(said.split("\n")[1])


def main() -> None:
    arguments = script.options(__doc__)
    arguments.add_argument("--call", default="mark", help="a kind of bench/native/calls.c")
    arguments.add_argument("--ways", default=",".join(USUAL), help=f"of {', '.join(WAYS)}")
    arguments.add_argument("--turns", type=script.whole(), default=4)
    arguments.add_argument("--calls", type=script.whole(), default=200_000)
    arguments.add_argument("--core", type=script.whole(0), default=max(os.sched_getaffinity(0)))
    options = arguments.parse_args()
    ways = options.ways.split(",")
    if unknown := [way for way in ways if way not in WAYS]:
        arguments.error(f"no way is called {unknown[0]!r}; there are {', '.join(WAYS)}")
    found: dict[str, list[float]] = {way: [] for way in ways}
    try:
        measure(options, found)
    finally:  # also what is known when it is broken off
        print(f"| ns for `{options.call}` | median | each process |\n| --- | --- | --- |")
        for way, times in found.items():
            if times:
                print(f"| {way} | {statistics.median(times):.1f} | {', '.join(f'{one:.1f}' for one in times)} |")


def measure(options: argparse.Namespace, found: dict[str, list[float]]) -> None:
    """Fill in what is found, and write it to the file as it grows."""
    backend = api.default_backend()
    with home.own(backend) as folder:
        program, source = folder / "calls", Path(__file__).parent / "native" / "calls.c"
        sources.build("cc", program, "-O2", source, "-ldl")
        settings = Settings(backend=backend, scratch=folder)
        for _ in range(options.turns):
            for way in found:
                script.check()
                found[way].append(time_of_one(program, way, options, settings))
                script.keep(options.out, {"machine": machine.describe(), "call": options.call, "ns": found})


if __name__ == "__main__":
    script.run(main)
