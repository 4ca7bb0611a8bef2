"""Question: what does counting driver calls cost (`torpor profile`)?   Target: at most 3 ns a call, nothing when off.

Copies of one program (bench/native/count_cost.c) live side by side on one processor core and take turns in short
batches: it makes calls natively, under the interposer with counting off, counting, and timing. Shown is the least of
all batches, which what else the machine does can only make larger, and the median. Once with a driver whose functions
return at once, so that the interposer alone is measured, and once with the software GPU.

    python bench/count_cost.py [--rounds 300] [--core 0] [--out results.json]
"""

from __future__ import annotations

import script

import statistics
import tempfile
from contextlib import ExitStack
from pathlib import Path

import machine

from torpor import paths
from torpor.bench import sources
from torpor.bench.settings import NATIVE, Settings
from torpor.bench.turns import Copy

SOURCE = Path(__file__).parent / "native" / "count_cost.c"
KINDS = {"jump": 100_000, "looked_up": 100_000, "gated": 100_000}
WAYS = ("native", "off", "counts", "times")


def start(program: Path, driver: Path, way: str, core: int) -> Copy:
    """The program on this driver, natively or under the interposer."""
    interposer = paths.interposer()
    if way == "native":
        environment = {"LD_LIBRARY_PATH": driver.parent}
    elif interposer is not None:
        environment = {"LD_PRELOAD": interposer, "TORPOR_REAL_LIBCUDA": driver, "TORPOR_PROFILE": way}
    else:
        raise SystemExit("the interposer is not built: run scripts/setup")
    words = [f"{name}={value}" for name, value in environment.items()]
    return Copy(["env", *words, "taskset", "-c", str(core), str(program)], NATIVE, Settings(backend="gpu"))


def measure(program: Path, driver: Path, rounds: int, core: int, share: float) -> dict[str, dict[str, list[float]]]:
    """kind -> way -> [least, median] nanoseconds per call."""
    found: dict[str, dict[str, list[float]]] = {kind: {way: [] for way in WAYS} for kind in KINDS}
    with ExitStack() as stack:
        copies = {way: stack.enter_context(start(program, driver, way, core)) for way in WAYS}
        for turn in range(rounds):
            script.check()
            for kind, count in KINDS.items():
                for way in WAYS if turn % 2 else WAYS[::-1]:
                    found[kind][way].append(copies[way].batch(kind, int(count * share)))
    return {
        kind: {way: [min(times), statistics.median(times)] for way, times in ways.items()}
        for kind, ways in found.items()
    }


def main() -> None:
    arguments = script.options(__doc__)
    arguments.add_argument("--rounds", type=script.whole(), default=300)
    arguments.add_argument("--core", type=script.whole(0), default=0)
    options = arguments.parse_args()
    software_gpu = paths.software_gpu()
    if software_gpu is None:
        raise SystemExit("the software GPU is not built: run scripts/setup")
    result = {}
    with tempfile.TemporaryDirectory() as folder:
        program, empty = Path(folder) / "count_cost", Path(folder) / "driver" / "libcuda.so.1"
        empty.parent.mkdir()
        sources.build("cc", program, "-O2", SOURCE, "-ldl")
        sources.build("cc", empty, "-O2", "-shared", "-fPIC", "-DCOUNT_COST_DRIVER", SOURCE)
        print("| driver | call | native ns | off | counting | timing | counting adds |")
        print("| --- | --- | --- | --- | --- | --- | --- |")
        for name, driver, share in (("empty", empty, 1.0), ("software GPU", software_gpu, 0.1)):
            result[name] = measure(program, driver, options.rounds, options.core, share)
            for kind, ways in result[name].items():
                cells = " | ".join(f"{ways[way][0]:.2f} ({ways[way][1]:.2f})" for way in WAYS)
                added = [ways["counts"][i] - ways["off"][i] for i in range(2)]
                print(f"| {name} | {kind} | {cells} | {added[0]:.2f} ({added[1]:.2f}) |", flush=True)
    script.keep(options.out, {"machine": machine.describe(), "count_cost": result})


if __name__ == "__main__":
    script.run(main)
