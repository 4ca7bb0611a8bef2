"""Question: what does this machine's GPU say to everything that docs/results/h200.md claims?

Runs the GPU tests and the benchmarks one after the other, each for at most its time, so that a machine that is there
for half an hour gives all that fits. Every item's output goes to OUT/<item>.log, its figures beside it; a line per item
is printed as it ends, the tables at the end. What was broken off keeps what it had found. Two of these may run side by
side on different GPUs (`--gpu`): each has a home, a folder in memory and its share of the processors.

    python bench/evidence.py OUT [ITEM …] [--seconds 560] [--gpu 0] [--list]
"""

from __future__ import annotations

import script

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from torpor import api
from torpor.bench import children, home

ROOT = Path(__file__).parents[1]
GRACE = 40.0
"""Seconds between the request to stop and the end of an item that has used up its time: a checkpoint that is under way
is rolled back first."""

SHORTEST = 10.0
"""Seconds without which an item is not begun."""


@dataclass(frozen=True)
class Item:
    """A command, and the seconds that it may take. `{out}` in a word is the folder for its figures."""

    name: str
    seconds: int
    command: tuple[str, ...]


def bench(name: str, seconds: int, *words: str) -> Item:
    """A program of this folder."""
    return Item(name, seconds, (sys.executable, *words, "--out", f"{{out}}/{name}.json"))


def part(name: str, seconds: int, *words: str, of: str = "") -> Item:
    """A part (`of`) of `torpor bench`; `torpor bench report` makes one report of several."""
    command = (sys.executable, "-m", "torpor", "bench", of or name, *words, "--out", f"{{out}}/bench-{name}")
    return Item(name, seconds, command)


def test(name: str, seconds: int) -> Item:
    """A file of tests/gpu."""
    options = ("-q", "-rf", "--tb=short", "--maxfail=3", "--timeout=150", "--durations=5", "-p", "no:cacheprovider")
    return Item(f"test_{name}", seconds, (sys.executable, "-m", "pytest", *options, f"tests/gpu/test_{name}.py"))


ITEMS = (
    bench("cycle", 480, "bench/cycle.py", "--repeat", "3", "--repeat-driver", "1", "--touch-gib", "100"),
    Item("levels", 90, (sys.executable, "bench/levels.py")),
    bench("overhead", 150, "bench/overhead.py", "--groups", "5", "--rounds", "5"),
    bench("defer", 80, "bench/overhead.py", "--groups", "3", "--rounds", "5", "--vm", "defer", "--kinds", "eager"),
    bench("full", 80, "bench/overhead.py", "--groups", "3", "--rounds", "5", "--vm", "full", "--kinds", "eager"),
    bench("decode", 100, "bench/overhead.py", "--groups", "5", "--rounds", "4", "--vm", "full", "--kinds", "decode"),
    bench("busy", 150, "bench/overhead.py", "--groups", "5", "--rounds", "5", "--vm", "answers", "--busy"),
    Item("one-core", 150, ("taskset", "-c", "1", sys.executable, "bench/overhead.py", "--groups", "5", "--rounds", "5",
        "--vm", "answers", "--out", "{out}/one-core.json")),
    part("cold-start", 540, "--models", "0.5b,8b"),
    part("launch", 60, "--groups", "3", "--rounds", "4"),
    part("transfers", 240, "--groups", "3", "--rounds", "4", "--batch", "0.02"),
    part("raw", 80, "--groups", "3"),
    part("training-sizes", 300, "--models", "30m,350m,760m,1b", "--groups", "3", "--rounds", "4", of="training"),
    part("training", 280, "--models", "120m", "--groups", "3", "--rounds", "4"),
    part("inference", 220, "--models", "0.5b", "--requests", "24", "--groups", "3", "--rounds", "1"),
    part("application", 200, "--models", "120m", "--repeats", "2"),
    part("checkpoint", 200, "--gib", "0,4,16", "--repeats", "2"),
    bench("one-call", 60, "bench/one_call.py"),
    bench("kernel-times", 60, "bench/one_call.py", "--call", "launch", "--ways", "answers,kernels"),
    Item("copy-targets", 40, ("sh", "-c", "cc -O2 -o {out}/copy_targets bench/native/copy_targets.c -ldl "
        "&& {out}/copy_targets; rm {out}/copy_targets")),
    bench("into-store", 120, "bench/into_store.py", "--gib", "16", "--repeat", "3", "--folder", "/dev/shm"),
    bench("into-disk", 240, "bench/into_store.py", "--gib", "16", "--repeat", "1"),
    bench("pools", 150, "bench/pools.py", "--gib", "8", "--repeat", "2"),
    bench("device-hash", 40, "bench/device_hash.py"),
    bench("sift", 60, "bench/sift.py"),
    bench("again", 200, "bench/again.py"),
    bench("load", 640, "bench/load.py", "--seconds", "600"),
    *(
        test(name, seconds)
        for name, seconds in (
            ("same_results", 300), ("memory_kinds", 200), ("deferred", 200), ("tensor_queue", 90), ("profile", 260),
            ("bench", 300), ("cases", 120), ("store", 60), ("sift", 20), ("device_hash", 30), ("adopted", 60),
            ("managed_variables", 60), ("forked_workers", 90), ("reached", 90), ("installed_suites", 400),
        )
    ),
)  # fmt: skip


def run(item: Item, out: Path, seconds: float) -> int | None:
    """Its exit status; None when its time was over."""
    words = [word.replace("{out}", str(out)) for word in item.command]
    with (out / f"{item.name}.log").open("wb") as log:
        streams = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": subprocess.STDOUT}
        with children.started(words, ending=_end, cwd=ROOT, **streams) as process:
            try:
                return process.wait(seconds)
            except subprocess.TimeoutExpired:
                _end(process)
                return None


def _end(process: children.Process) -> None:
    """As Ctrl-C does, which keeps what was measured; where that does not end it in time, at once."""
    with home.undisturbed():  # it is in a session of its own, and hears nothing of ours
        process.send_signal(signal.SIGINT)
        try:
            process.wait(GRACE)
        except subprocess.TimeoutExpired:
            children.end(process)


@contextmanager
def settled_on(gpu: int, cores: Sequence[int]) -> Iterator[None]:
    """One GPU and these processors; a home that nobody else has, of which nothing is left."""
    name = f"evidence-{gpu}-{os.getpid()}"
    folder, dram = Path("/tmp", name), Path("/dev/shm", name)
    outer = dict(os.environ)
    os.environ.update(CUDA_VISIBLE_DEVICES=str(gpu), TORPOR_HOME=str(folder), TORPOR_DRAM=str(dram))
    os.sched_setaffinity(0, cores)
    try:
        folder.mkdir()
        dram.mkdir()
        yield
    finally:
        with home.undisturbed():
            home.leave(folder, dram, api.default_backend(), outer)


def cores_of(gpu: int) -> list[int]:
    """As large a share of the processors for each GPU of the machine; none for one that it does not have."""
    cores = sorted(os.sched_getaffinity(0))
    share = len(cores) // max(len(list(Path("/dev").glob("nvidia[0-9]*"))), 1)
    return cores[gpu * share : (gpu + 1) * share]


def main() -> int:
    """Exit status 1 when an item failed; one that was broken off has not."""
    arguments = script.options(__doc__, out=False)
    arguments.add_argument("out", type=Path, nargs="?", default=Path("evidence"))
    arguments.add_argument("items", nargs="*", metavar="ITEM", help="by default all, in the order of --list")
    arguments.add_argument("--seconds", type=script.number(), default=560, help="for everything")
    arguments.add_argument("--gpu", type=script.whole(0), default=0)
    arguments.add_argument("--list", action="store_true")
    options = arguments.parse_args()
    known = {item.name: item for item in ITEMS}
    if options.list:
        for item in ITEMS:
            words = ["python" if word == sys.executable else word for word in item.command]
            print(f"{item.name:22} {item.seconds:4} s  {shlex.join(words)}")
        return 0
    if unknown := [name for name in options.items if name not in known]:
        arguments.error(f"no item is called {unknown[0]}; --list names them")
    cores = cores_of(options.gpu)
    if not cores:
        arguments.error(f"--gpu {options.gpu}: this machine has no processors for it")
    out = options.out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    with settled_on(options.gpu, cores):
        failed = run_all([known[name] for name in options.items] or ITEMS, out, options.seconds)
    for file in [*sorted(out.glob("*.log")), *sorted(out.glob("bench-*/report.md"))]:
        if rows := [line for line in file.read_text(errors="replace").splitlines() if line.startswith(("|", "FAILED"))]:
            print(file.relative_to(out), *rows, sep="\n", flush=True)
    return int(failed)


def run_all(items: Sequence[Item], out: Path, seconds: float) -> bool:
    """Run them one after another, as long as there is time; whether one failed."""
    begun = time.monotonic()
    failed = False
    for item in items:
        left = seconds - (time.monotonic() - begun) - GRACE
        if left < SHORTEST:
            print(f"no time is left for {item.name}", flush=True)
            continue
        status = run(item, out, min(item.seconds, left))
        failed |= bool(status)
        what = "broken off" if status is None else f"status {status}"
        lines = (out / f"{item.name}.log").read_text(errors="replace").splitlines()
        print(f"[{time.monotonic() - begun:.0f} s] {item.name}: {what}: {(lines or [''])[-1][:140]}", flush=True)
    return failed


if __name__ == "__main__":
    script.run(main)
