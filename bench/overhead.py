"""Question: what does Torpor cost a job while nothing goes wrong?   Target: every median within 1 % of native.

Copies of the same program live side by side on the same processor core: one native, one under `torpor run`, and for the
control a second native one. They take turns (`torpor.bench.turns`); `torpor bench launch transfers` asks the same of
more kinds. Programs: bench/native/calls.c (null-kernel launches, 8-byte copies, a query), bench/eager_loop.py (eager
PyTorch) and, where its kinds are asked for, bench/decode_loop.py (decoding with an 8 B-shaped model: three copies take
60 GiB).

Reported for each kind: native time (median), and the ratio to it of Torpor and of the control: each group's median
ratio of adjacent batches, of these the median, and the lowest and highest (of nine groups and more: the interval that
holds the median with 95 %). What the control differs from 1 cannot be told from noise. With `--vm defer` the question
is what deferring calls gains, with `--busy` what all of it is like on a machine whose every processor has work already
(`taskset -c N python bench/overhead.py`: with one processor).

    python bench/overhead.py [--groups 7] [--rounds 10] [--vm answers] [--busy] [--kinds calls eager …] [--out FILE]
"""

from __future__ import annotations

import script

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path

import msgspec

from torpor import api
from torpor.bench import children, home, machine, sources, turns
from torpor.bench.report.tables import cost
from torpor.bench.results import Measurement
from torpor.bench.settings import CONTROL, NATIVE, TORPOR, Settings
from torpor.records import DEFAULT_VM

HERE = Path(__file__).parent
CALLS = ("launch", "copy_in_8B", "copy_out_8B", "copy_in_async_8B", "get_device", "mark")
EAGER = ("eager_add", "eager_mm", "eager_train_step")
DECODE = tuple(f"decode_{form}_{rows}" for form in ("eager", "pieces") for rows in (1, 8, 64))
GROUPS = {"calls": CALLS, "eager": EAGER, "decode": DECODE}


@contextmanager
def busy() -> Iterator[None]:
    """Every processor that we may use has a process that never waits."""
    spin = [sys.executable, "-c", "while True: pass"]
    with ExitStack() as stack:
        for core in os.sched_getaffinity(0):
            stack.callback(children.end, children.begin(["taskset", "-c", str(core), *spin]))
        yield


def main() -> None:
    arguments = script.options(__doc__)
    arguments.add_argument("--groups", type=script.whole(), default=7)
    arguments.add_argument("--rounds", type=script.whole(), default=10)
    arguments.add_argument("--vm", choices=("off", "answers", "defer", "full"), default=DEFAULT_VM)
    arguments.add_argument("--busy", action="store_true", help="beside as many busy threads as there are processors")
    known = [*GROUPS, *(kind for kinds in GROUPS.values() for kind in kinds)]
    arguments.add_argument("--kinds", nargs="+", default=["calls", "eager"], choices=known, help="or groups of them")
    options = arguments.parse_args()
    found: dict[str, Measurement] = {}
    try:
        measure(options, found)
    finally:  # also what is known when it is broken off
        print("| call | native ns | Torpor / native | control / native |")
        print("| --- | --- | --- | --- |")
        for one in found.values():
            native = f"{one.sides[NATIVE].median:.1f}" if one.sides else one.note
            ratios = [cost(one.cost.get(side)) for side in (TORPOR, CONTROL)]
            print(f"| {one.name} | {native} | {' | '.join(ratios)} |", flush=True)


def measure(options: argparse.Namespace, found: dict[str, Measurement]) -> None:
    """Fill in what is found, and write it to the file as it grows."""
    backend = api.default_backend()
    # In a home of its own: nothing is left of the jobs, wherever it is broken off.
    with home.own(backend) as folder, busy() if options.busy else nullcontext():
        settings = Settings(
            backend=backend,
            vm=options.vm,
            groups=options.groups,
            rounds=options.rounds,
            scratch=folder,
        )
        calls = folder / "calls"
        sources.build("cc", calls, "-O2", HERE / "native" / "calls.c", "-ldl")
        for group, known in GROUPS.items():
            command = [str(calls)] if group == "calls" else [sys.executable, str(HERE / f"{group}_loop.py")]
            kinds = [turns.Kind(name=kind, ask=kind) for kind in known if {kind, group} & set(options.kinds)]
            for one in turns.compare(command, kinds, settings) if kinds else ():
                found[one.name] = one
                script.keep(options.out, {"machine": machine.describe(), "overhead": msgspec.to_builtins(found)})


if __name__ == "__main__":
    script.run(main)
