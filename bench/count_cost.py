"""Question: what does counting driver calls cost (`torpor profile`)?   Target: at most 3 ns a call, nothing when off.

Copies of one program (bench/native/count_cost.c) live side by side on one processor core and take turns in short
batches: it makes calls natively, under the interposer with counting off, counting, and timing. Shown is the least of
all batches, which what else the machine does can only make larger, and the median. Once with a driver whose functions
return at once, so that the interposer alone is measured, and once with the software GPU.

    python bench/count_cost.py [--rounds 300] [--core 0] [--out results.json]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

import machine

from torpor import paths

SOURCE = Path(__file__).parent / "native" / "count_cost.c"
KINDS = {"jump": 100_000, "looked_up": 100_000, "gated": 100_000}
WAYS = ("native", "off", "counts", "times")


def start(program: Path, driver: Path, way: str, core: int) -> subprocess.Popen[str]:
    """The program on this driver, natively or under the interposer."""
    interposer = paths.interposer()
    assert interposer is not None, "the interposer is not built: run scripts/setup"
    environment = dict(os.environ)
    if way == "native":
        environment["LD_LIBRARY_PATH"] = str(driver.parent)
    else:
        environment |= {"LD_PRELOAD": str(interposer), "TORPOR_REAL_LIBCUDA": str(driver), "TORPOR_PROFILE": way}
    return subprocess.Popen(
        ["taskset", "-c", str(core), str(program)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
        env=environment,
    )


def batch(process: subprocess.Popen[str], kind: str, count: int) -> float:
    assert process.stdin and process.stdout
    process.stdin.write(f"{kind} {count}\n")
    return float(process.stdout.readline())


def measure(program: Path, driver: Path, rounds: int, core: int, share: float) -> dict[str, dict[str, list[float]]]:
    """kind -> way -> [least, median] nanoseconds per call."""
    copies = {way: start(program, driver, way, core) for way in WAYS}
    found: dict[str, dict[str, list[float]]] = {kind: {way: [] for way in WAYS} for kind in KINDS}
    for turn in range(rounds):
        for kind, count in KINDS.items():
            for way in WAYS if turn % 2 else WAYS[::-1]:
                found[kind][way].append(batch(copies[way], kind, int(count * share)))
    for copy in copies.values():
        assert copy.stdin
        copy.stdin.close()
        if copy.wait(60) != 0:
            raise SystemExit(f"the program ended with {copy.returncode}")
    return {
        kind: {way: [min(times), statistics.median(times)] for way, times in ways.items()}
        for kind, ways in found.items()
    }


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rounds", type=int, default=300)
    arguments.add_argument("--core", type=int, default=0)
    arguments.add_argument("--out", type=Path)
    options = arguments.parse_args()
    software_gpu = paths.software_gpu()
    assert software_gpu is not None, "the software GPU is not built: run scripts/setup"
    result = {}
    with tempfile.TemporaryDirectory() as folder:
        program, empty = Path(folder) / "count_cost", Path(folder) / "driver" / "libcuda.so.1"
        empty.parent.mkdir()
        subprocess.run(["cc", "-O2", "-o", program, SOURCE, "-ldl"], check=True)
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-DCOUNT_COST_DRIVER", "-o", empty, SOURCE], check=True)
        print("| driver | call | native ns | off | counting | timing | counting adds |")
        print("| --- | --- | --- | --- | --- | --- | --- |")
        for name, driver, share in (("empty", empty, 1.0), ("software GPU", software_gpu, 0.1)):
            result[name] = measure(program, driver, options.rounds, options.core, share)
            for kind, ways in result[name].items():
                cells = " | ".join(f"{ways[way][0]:.2f} ({ways[way][1]:.2f})" for way in WAYS)
                added = [ways["counts"][i] - ways["off"][i] for i in range(2)]
                print(f"| {name} | {kind} | {cells} | {added[0]:.2f} ({added[1]:.2f}) |", flush=True)
    if options.out:
        options.out.write_text(json.dumps({"machine": machine.describe(), "count_cost": result}, indent=1))


if __name__ == "__main__":
    main()
