"""Question: what does each level of `--vm` gain on the calls it is for?   Target: nothing takes longer than natively.

A chain of ten tiny kernels, repeated, is to take with `full` at most 0.77 of what it takes with `defer`.

One copy of bench/native/calls.c natively, a second one as control, and one at each level, all alive at once, take
turns. Where a process's memory comes to lie changes its speed for as long as it lives, so several groups of copies
follow one another. Reported: native ns of a call (median); for each side the ratio of its time to the native one
beside it, of each group the median, of these the median with the lowest and highest; the same of `full` to `defer`;
and what the last `full` says that it did. `burst` is launches without the wait for the GPU: what a deferred one costs
the program itself; `paced` the same with 5 µs of other work before each. `under_way` ends only if a graph can be
changed and launched while it is under way without waiting for that: what it waits for comes later.

    python bench/levels.py [--groups 3] [--turns 5] [--calls 20000] [--kinds chain launch …]
"""

from __future__ import annotations

import script

import statistics
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from torpor import api, paths
from torpor.bench import home, sources
from torpor.bench.settings import CONTROL, NATIVE, TORPOR, Settings
from torpor.bench.turns import Copy
from torpor.keeper.control import ControlClient, sockets_in

HERE = Path(__file__).parent
LEVELS = (NATIVE, CONTROL, "off", "defer", "full")
CHAINS = ("chain", "chain_varied", "chain_moving", "under_way")
KINDS = (*CHAINS, "launch", "burst", "paced", "mark", "copy_in_pinned_8B", "copy_within")


def started(program: Path, level: str, group: int, settings: Settings) -> Copy:
    """One live copy of the program; that of a level is a job of this name."""
    if level in (NATIVE, CONTROL):
        return Copy([str(program)], level, settings)
    return Copy([str(program)], TORPOR, replace(settings, vm=level), "--name", f"{level}-{group}")


def spread(ratios: Sequence[float]) -> str:
    return f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"


def counts(name: str) -> dict[str, int]:
    """What the process of a job says that became of its calls."""
    folder = paths.control_dir(name)
    for pid in sockets_in(folder):
        with ControlClient(folder, pid) as control:
            return control.hello().vm
    return {}


def main() -> None:
    arguments = script.options(__doc__, out=False)
    arguments.add_argument("--groups", type=script.whole(), default=3)
    arguments.add_argument("--turns", type=script.whole(), default=5)
    arguments.add_argument("--calls", type=script.whole(), default=20000)
    arguments.add_argument("--kinds", nargs="+", default=KINDS, choices=KINDS)
    arguments.add_argument("--gpu", default=api.default_backend(), choices=("gpu", "sim"))
    options = arguments.parse_args()
    found: dict[str, list[dict[str, list[float]]]] = {kind: [] for kind in options.kinds}
    done: dict[str, int] = {}
    try:
        # In a home of its own: nothing is left of the jobs, wherever it is broken off.
        with home.own(options.gpu) as folder:
            settings, program = Settings(backend=options.gpu, scratch=folder), folder / "calls"
            api.keeper_warm(options.gpu, 0)  # so that it does not get ready beside the first turns
            sources.build("cc", program, "-O2", HERE / "native" / "calls.c", "-ldl")
            for group in range(options.groups):
                with ExitStack() as stack:
                    copies = {
                        level: stack.enter_context(started(program, level, group, settings)) for level in LEVELS
                    }
                    for kind in options.kinds:
                        found[kind].append(in_turns(copies, kind, options.turns, options.calls))
                    done = {name: count for name, count in counts(f"full-{group}").items() if count}
    finally:  # also what is known when it is broken off
        tell(found)
    print(done)


def tell(found: dict[str, list[dict[str, list[float]]]]) -> None:
    """The table of what has been measured."""
    print(f"| call | native ns | {' | '.join(f'{level} / native' for level in LEVELS[1:])} | full / defer |")
    print("| --- " * (len(LEVELS) + 2) + "|")
    for kind, groups in found.items():
        if groups:
            native = statistics.median(time for times in groups for time in times[NATIVE])
            cells = [spread([ratio(times[level], times[NATIVE]) for times in groups]) for level in LEVELS[1:]]
            cells.append(spread([ratio(times["full"], times["defer"]) for times in groups]))
            print(f"| {kind} | {native:.1f} | {' | '.join(cells)} |", flush=True)


def in_turns(copies: dict[str, Copy], kind: str, turns: int, calls: int) -> dict[str, list[float]]:
    """Nanoseconds of a call, turn by turn, for each level."""
    times: dict[str, list[float]] = {level: [] for level in LEVELS}
    for turn in range(-1, turns):  # one turn of warm-up
        script.check()
        for level in LEVELS if turn % 2 else LEVELS[::-1]:
            time = copies[level].batch(kind, calls)
            if turn >= 0:
                times[level].append(time)
    return times


def ratio(times: list[float], others: list[float]) -> float:
    """Median of the ratios of adjacent batches."""
    return statistics.median(one / other for one, other in zip(times, others, strict=True))


if __name__ == "__main__":
    script.run(main)
