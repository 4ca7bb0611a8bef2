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

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from torpor import api, paths
from torpor.keeper.control import ControlClient, sockets_in

HERE = Path(__file__).parent
LEVELS = ("native", "control", "off", "defer", "full")
CHAINS = ("chain", "chain_varied", "chain_moving", "under_way")
KINDS = (*CHAINS, "launch", "burst", "paced", "mark", "copy_in_pinned_8B", "copy_within")


def name_of(level: str, group: int) -> str:
    """The job of this level in a group."""
    return f"levels-{level}-{os.getpid()}-{group}"


class Copy:
    """One live copy of the program."""

    def __init__(self, program: str, level: str, group: int, gpu: str) -> None:
        command, env = [program], None
        if level in ("native", "control"):
            library = paths.software_gpu()
            env = {"LD_LIBRARY_PATH": str(library.parent)} if gpu == "sim" and library is not None else None
        else:
            options = ["--name", name_of(level, group), "--vm", level, *(["--gpu", "sim"] if gpu == "sim" else [])]
            command = [sys.executable, "-m", "torpor", "run", *options, "--", program]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, env=env
        )

    def batch(self, kind: str, calls: int) -> float:
        """Nanoseconds per call."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{kind} {calls}\n")
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"the program ended with {self._process.wait()} in {kind}")
        return float(line)

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        if self._process.wait() != 0:
            raise SystemExit(f"the program ended with {self._process.returncode}")


def spread(ratios: list[float]) -> str:
    return f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"


def counts(name: str) -> dict[str, int]:
    """What the process of a job says that became of its calls."""
    folder = paths.control_dir(name)
    for pid in sockets_in(folder):
        with ControlClient(folder, pid) as control:
            return control.hello().vm
    return {}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--groups", type=int, default=3)
    arguments.add_argument("--turns", type=int, default=5)
    arguments.add_argument("--calls", type=int, default=20000)
    arguments.add_argument("--kinds", nargs="*", default=KINDS, choices=KINDS)
    arguments.add_argument("--gpu", default=api.default_backend(), choices=("gpu", "sim"))
    options = arguments.parse_args()
    print(f"| call | native ns | {' | '.join(f'{level} / native' for level in LEVELS[1:])} | full / defer |")
    print("| --- " * (len(LEVELS) + 2) + "|")
    with tempfile.TemporaryDirectory() as folder:
        program = str(Path(folder) / "calls")
        subprocess.run(["cc", "-O2", "-o", program, str(HERE / "native" / "calls.c"), "-ldl"], check=True)
        found: dict[str, list[dict[str, list[float]]]] = {kind: [] for kind in options.kinds}
        for group in range(options.groups):
            copies = {level: Copy(program, level, group, options.gpu) for level in LEVELS}
            for kind in options.kinds:
                found[kind].append(in_turns(copies, kind, options.turns, options.calls))
            done = {name: count for name, count in counts(name_of("full", group)).items() if count}
            for copy in copies.values():
                copy.end()
        for kind, groups in found.items():
            native = statistics.median(time for times in groups for time in times["native"])
            cells = [spread([ratio(times[level], times["native"]) for times in groups]) for level in LEVELS[1:]]
            cells.append(spread([ratio(times["full"], times["defer"]) for times in groups]))
            print(f"| {kind} | {native:.1f} | {' | '.join(cells)} |", flush=True)
        print(done)


def in_turns(copies: dict[str, Copy], kind: str, turns: int, calls: int) -> dict[str, list[float]]:
    """Nanoseconds of a call, turn by turn, for each level."""
    times: dict[str, list[float]] = {level: [] for level in LEVELS}
    for turn in range(-1, turns):  # one turn of warm-up
        for level in LEVELS if turn % 2 else LEVELS[::-1]:
            time = copies[level].batch(kind, calls)
            if turn >= 0:
                times[level].append(time)
    return times


def ratio(times: list[float], others: list[float]) -> float:
    """Median of the ratios of adjacent batches."""
    return statistics.median(one / other for one, other in zip(times, others, strict=True))


if __name__ == "__main__":
    main()
