"""Question: what does a checkpoint into a store take and move, against a full image in a folder, and what the way back?

The job is bench/weights.py: incompressible device memory in which nothing, 3 % or all of the chunks change. In each
turn: a full image in a folder (the twin of everything that follows), then into a new store, again with nothing
changed, with 3 % changed, and with everything changed, straight and by way of memory; then three restores, of an
image in memory (`dram`: the thin path), of the folder, and out of the store. Where `--folder`, in which folder and
store lie, is on a disk, the last two once more with nothing of them in the page cache, beside the rate at which the
disk gives the folder's files to eight plain readers. The job runs on after each checkpoint. "GPU side" is from the
first frozen process until the last byte of GPU memory that had to has left it.

Targets, on an H200 with 16 GiB: with nothing changed at most 3 % of the bytes move, the store grows by at most 3 %,
and the GPU side takes at most 150 ms; with everything changed it is not slower than a full image; a restore out of a
store in memory takes at most 1.1 times that of the thin path, one from the disk reads at 90 % of its rate or more. On
the software GPU, which the host hashes for, the figures say something of the host's part only.

    python bench/into_store.py [--gib 16] [--repeat 3] [--folder DIR] [--out into-store.json]
"""

from __future__ import annotations

import script

import argparse
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import machine

import torpor
from torpor import api, doctor
from torpor.bench import caches, home

PROGRAM = Path(__file__).with_name("weights.py")
PIECE, READERS = 8 << 20, 8
GPU_SIDE = ("freeze", "export", "hold", "release", "import", "sift", "copy")


class Steps:
    """Collects one verb's steps: seconds by name."""

    def __init__(self) -> None:
        self.found: dict[str, float] = {}

    def __call__(self, event: torpor.Progress) -> None:
        if event.event == "end":
            self.found[event.phase] = round(event.seconds, 4)


def lines(job: torpor.Job) -> list[str]:
    return b"".join(job.logs()).decode().splitlines()


def says(job: torpor.Job, line: str) -> None:
    end = time.monotonic() + 300
    while line not in lines(job):
        if job.exit_code is not None or time.monotonic() > end:
            raise SystemExit(f"{job.name} did not say {line!r}: {b''.join(job.logs())[-500:]!r}")
        time.sleep(0.01)


class Turn:
    """One job and what is done to it; `rows` has what each step took."""

    def __init__(self, folder: Path, gib: float) -> None:
        self.folder = folder
        self.rows: dict[str, dict[str, Any]] = {}
        self.job = api.run([sys.executable, str(PROGRAM), str(gib)], name="weights")
        self._changes = 0
        says(self.job, "ready")

    def run(self) -> None:
        job, folder = self.job, self.folder
        with api.create_store(str(folder / "store")) as store:
            image = self._timed("folder, full", lambda steps: job.checkpoint(True, to=folder / "full", progress=steps))
            for what, change in (
                ("store, new", None),
                ("store, nothing changed", None),
                ("store, 3 % changed", signal.SIGUSR2),
                ("store, everything changed", signal.SIGUSR1),
            ):
                if change is not None:
                    self._change(change)
                before = used(folder / "store")
                done = self._timed(what, lambda steps: store.checkpoint(job, leave_running=True, progress=steps))
                row = self.rows[what]
                row["moved"] = done.sifted["moved"] if done.sifted else None
                row["hashed_by"] = done.sifted["by"] if done.sifted else None
                row["grown"] = used(folder / "store") - before
                row["gpu_bytes"], row["bytes"] = done.image.head.gpu_bytes, done.bytes
            keep_last(store)  # a small disk has no room for all of them
            self._change(signal.SIGUSR1)
            soon = self._timed(
                "memory first, everything changed",
                lambda steps: store.begin_checkpoint(job, leave_running=True, progress=steps),
            )
            self._timed("then durable in the store", lambda steps: store.flush(soon, progress=steps))
            keep_last(store)  # of which all that is in the store is then a part
            thin = job.checkpoint(tier="dram")
            self._restored("restore, dram", thin)
            thin.remove()
            self._restored("restore, folder", image)
            stored = store.images()[-1]
            self._restored("restore, store", stored)
            if not on_disk(folder):
                return
            whole = used(image.path)
            self._dropped("read, caches dropped", lambda: read(image.path), whole, restored=None)
            self._dropped("restore, folder, caches dropped", None, whole, restored=image)
            self._dropped("restore, store, caches dropped", None, used(folder / "store"), restored=stored)

    def _dropped(self, what: str, action: Callable[[], None] | None, count: int, restored: Any) -> None:
        """With nothing of the images in the page cache: seconds, and GB/s of what lies on the disk."""
        caches.drop([self.folder], everything=api.default_backend() == "gpu")
        if action is not None:
            self._timed(what, lambda _: action())
        else:
            self._restored(what, restored)
        self.rows[what]["gb_per_s"] = round(count / self.rows[what]["seconds"] / 1e9, 3)

    def _timed(self, what: str, action: Callable[[Steps], Any]) -> Any:
        script.check()
        steps = Steps()
        cpu, begun = keeper_seconds(), time.perf_counter()
        result = action(steps)
        seconds, cpu = time.perf_counter() - begun, keeper_seconds() - cpu
        gpu_side = sum(steps.found.get(name, 0.0) for name in GPU_SIDE)
        row = {"seconds": seconds, "gpu_side": gpu_side, "keeper_cpu": cpu}
        self.rows[what] = {**{key: round(value, 4) for key, value in row.items()}, "phases": steps.found}
        print(f"{what}: {seconds:.2f} s", file=sys.stderr, flush=True)
        return result

    def _change(self, how: int) -> None:
        self._changes += 1
        self.job.kill(how)
        says(self.job, f"changed {self._changes}")

    def _restored(self, what: str, image: Any) -> None:
        job = self._timed(what, lambda steps: api.restore(image, name="woken", progress=steps))
        changes = len(lines(job))
        job.kill(signal.SIGUSR1)
        says(job, f"changed {changes}")  # the first line is `ready`
        job.kill(signal.SIGKILL)
        job.wait()
        job.remove()


def keep_last(store: torpor.Store) -> None:
    for image in store.images()[:-1]:
        image.remove()
    store.prune()


def on_disk(folder: Path) -> bool:
    """Whether its files' pages can be dropped."""
    return doctor.file_system(folder) not in doctor.MEMORY


def read(folder: Path) -> None:
    """All bytes of its files, by several readers in turns of 8 MiB."""
    files = [file for file in sorted(folder.rglob("*")) if file.is_file()]
    pieces = [(file, at) for file in files for at in range(0, file.stat().st_size, PIECE)]

    def read_piece(piece: tuple[Path, int]) -> None:
        file, at = piece
        with file.open("rb", buffering=0) as opened:
            opened.seek(at)
            opened.readinto(bytearray(PIECE))

    with ThreadPoolExecutor(READERS) as pool:
        list(pool.map(read_piece, pieces))


def keeper_seconds() -> float:
    """Processor seconds of the keeper so far: on a busy machine they say more than the clock."""
    status = api.keeper_status(api.default_backend())
    assert status is not None
    fields = Path(f"/proc/{status['pid']}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def used(store: Path) -> int:
    return sum(file.stat().st_size for file in store.rglob("*") if file.is_file())


def main() -> None:
    options = script.options(__doc__)
    options.add_argument("--gib", type=script.number(1 / 1024), default=16)
    options.add_argument("--repeat", type=script.whole(), default=3)
    options.add_argument("--folder", type=script.folder, help="where images and stores lie; by default a temporary one")
    chosen = options.parse_args()
    with home.own(api.default_backend()):  # where all jobs are its own, and end with it
        measure(chosen)


def measure(chosen: argparse.Namespace) -> None:
    """Turns, written as they are done; the table of those that are."""
    api.keeper_warm(api.default_backend(), int(min(chosen.gib + 1, 8) * (1 << 30)))
    turns: list[dict[str, Any]] = []
    try:
        for _ in range(chosen.repeat):
            with tempfile.TemporaryDirectory(prefix="torpor-bench-", dir=chosen.folder) as folder:
                turn = Turn(Path(folder), chosen.gib)
                turn.run()
            for job in api.jobs():
                job.remove()
            turns.append(turn.rows)
            script.keep(chosen.out, {"machine": machine.describe(), "gib": chosen.gib, "turns": turns})
    finally:  # also what is known when it is broken off
        if turns:
            print(table(turns), flush=True)


def table(turns: list[dict[str, Any]]) -> str:
    """Medians over the turns."""
    lines = [
        "| what | s | GPU side s | keeper CPU s | left GPU memory MiB | store grew MiB | GB/s |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for what in turns[0]:
        rows = [turn[what] for turn in turns]
        times = [f"{statistics.median(row[key] for row in rows):.3f}" for key in ("seconds", "gpu_side", "keeper_cpu")]
        moved, grown = (
            f"{statistics.median(row[key] for row in rows) / (1 << 20):.1f}" if rows[0].get(key) is not None else ""
            for key in ("moved", "grown")
        )
        rate = f"{statistics.median(row['gb_per_s'] for row in rows):.2f}" if "gb_per_s" in rows[0] else ""
        lines.append(f"| {what} | {' | '.join(times)} | {moved} | {grown} | {rate} |")
    return "\n".join(lines)


if __name__ == "__main__":
    script.run(main)
