"""Question: what does each level of `--vm` gain on the calls it is for?   Target: nothing takes longer than natively.

A chain of ten tiny kernels, repeated, is to take with `full` at most 0.77 of what it takes with `defer`.

One copy of bench/native/calls.c natively and one at each level, all alive at once, take turns. Reported: native ns of a
call (median); for each level the median ratio of its time to the native one beside it, with the lowest and highest; the
same of `full` to `defer`; and what `full` says that it did. `under_way` ends only if a graph can be changed and
launched while it is under way without waiting for that: what it waits for comes later.

    python bench/levels.py [--turns 9] [--calls 20000] [--kinds chain launch …]
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
LEVELS = ("native", "off", "defer", "full")
KINDS = ("chain", "chain_varied", "under_way", "launch", "mark", "copy_in_pinned_8B")


def name_of(level: str) -> str:
    """The job of this level."""
    return f"levels-{level}-{os.getpid()}"


class Copy:
    """One live copy of the program."""

    def __init__(self, program: str, level: str, gpu: str) -> None:
        command, env = [program], None
        if level == "native":
            library = paths.software_gpu()
            env = {"LD_LIBRARY_PATH": str(library.parent)} if gpu == "sim" and library is not None else None
        else:
            options = ["--name", name_of(level), "--vm", level, *(["--gpu", "sim"] if gpu == "sim" else [])]
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
    arguments.add_argument("--turns", type=int, default=9)
    arguments.add_argument("--calls", type=int, default=20000)
    arguments.add_argument("--kinds", nargs="*", default=KINDS, choices=KINDS)
    arguments.add_argument("--gpu", default=api.default_backend(), choices=("gpu", "sim"))
    options = arguments.parse_args()
    print(f"| call | native ns | {' | '.join(f'{level} / native' for level in LEVELS[1:])} | full / defer |")
    print("| --- " * (len(LEVELS) + 2) + "|")
    with tempfile.TemporaryDirectory() as folder:
        program = str(Path(folder) / "calls")
        subprocess.run(["cc", "-O2", "-o", program, str(HERE / "native" / "calls.c"), "-ldl"], check=True)
        copies = {level: Copy(program, level, options.gpu) for level in LEVELS}
        for kind in options.kinds:
            times: dict[str, list[float]] = {level: [] for level in LEVELS}
            for turn in range(-1, options.turns):  # one turn of warm-up
                for level in LEVELS if turn % 2 else LEVELS[::-1]:
                    time = copies[level].batch(kind, options.calls)
                    if turn >= 0:
                        times[level].append(time)
            ratios = {
                level: [one / native for one, native in zip(times[level], times["native"], strict=True)]
                for level in LEVELS[1:]
            }
            merged = [full / defer for full, defer in zip(times["full"], times["defer"], strict=True)]
            cells = " | ".join(spread(ratios[level]) for level in LEVELS[1:])
            print(f"| {kind} | {statistics.median(times['native']):.1f} | {cells} | {spread(merged)} |", flush=True)
        print({name: count for name, count in counts(name_of("full")).items() if count})
        for copy in copies.values():
            copy.end()


if __name__ == "__main__":
    main()
