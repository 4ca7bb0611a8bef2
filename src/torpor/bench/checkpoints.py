"""Question: how long do checkpoint and restore take against the GPU memory in use, and how long does a job stand still?

Torpor with its arena, and the driver's own checkpoint calls + CRIU, in one run. Images lie in memory for both; Torpor's
pinned pool is warm; every cycle kills the job. The job holds memory, and checks it in every step.
Target: at 16 GiB and more at least 8 times as fast as the driver and CRIU.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from torpor import api, paths
from torpor.bench import cycles, models, sources
from torpor.bench.cycles import Cycle
from torpor.bench.parts import Part
from torpor.bench.report.tables import size_name
from torpor.bench.results import Bar, Figure, Measurement, Spread, spread, times_faster
from torpor.bench.settings import DRIVER, TORPOR, Settings
from torpor.errors import Cancelled, TorporError

GIB = 1 << 30
SLOW_FROM = 24.0
"""From so many GiB on a cycle of the driver's own way takes minutes, and is left out unless sizes were asked for."""
BAR_FROM = 16.0
SPARE = 8 * GIB
"""Host memory that a cycle needs beside the bytes of the GPU."""
LEAST_PHASE = 0.005
"""Seconds from which a phase is worth a line of its own."""

RATES = (
    ("checkpoint", "copy", "copy out"),
    ("restore", "copy", "copy in"),
    ("checkpoint", "driver checkpoint", "driver checkpoint"),
    ("restore", "driver restore", "driver restore"),
    ("checkpoint", "criu dump", "CRIU dump"),
    ("restore", "criu restore", "CRIU restore"),
)
"""Verb, step, and what its speed is called."""

Cycles = dict[str, list[Cycle]]


def run(settings: Settings) -> Iterator[Measurement]:
    """Cycles of every size; when they are broken off, what they have found by then."""
    sizes = sizes_of(settings)
    room = Room()
    models.touch(int(2 * max(sizes) * GIB) + SPARE, settings)
    found: dict[float, Cycles] = {size: {DRIVER: [], TORPOR: []} for size in sizes}
    notes = dict.fromkeys(sizes, "")
    failures: list[BaseException] = []
    try:
        # One side after the other: the driver's has no use for the pool, and with all bytes twice no room for it.
        for side, turns in ((DRIVER, settings.driver_repeats), (TORPOR, settings.repeats)):
            with kept(failures, settings):
                api.keeper_stop(settings.backend)
                if side == TORPOR:
                    fitting = [size for size in sizes if not room.lacking(settings, side, size)]
                    api.keeper_warm(settings.backend, int(max(fitting, default=0.0) * GIB))
                for size in sizes:
                    lacking = room.lacking(settings, side, size) if turns else ""
                    if lacking:
                        settings.say(f"{label(size)}, {lacking}")
                    notes[size] = "; ".join(filter(None, (notes[size], lacking)))
                    for turn in range(0 if lacking else turns):
                        settings.say(f"{label(size)}, {side}, cycle {turn + 1} of {turns}")
                        cycle = cycles.live(program(size), arena=side == TORPOR, stall=True, vm=settings.vm)
                        found[size][side].append(cycle)
                        yield from measurements(label(size), size, found[size], notes[size], size >= BAR_FROM, False)
    except (KeyboardInterrupt, Cancelled) as error:
        failures.insert(0, error)
    shown = {max((size for size in sizes if found[size][side]), default=-1.0) for side in (DRIVER, TORPOR)}
    for size in sizes:
        if notes[size] and not any(found[size].values()):
            yield Measurement(name=f"checkpoint, {label(size)}", unit="s", sides={}, note=notes[size])
        yield from measurements(
            label(size), size, found[size], notes[size], bar=size >= BAR_FROM, headline=size in shown
        )
    at = max((size for size in sizes if found[size][DRIVER] and found[size][TORPOR]), default=sizes[-1])
    yield from _phases(label(at), found[at])
    if failures:
        raise failures[0]


@contextmanager
def kept(failures: list[BaseException], settings: Settings) -> Iterator[None]:
    """What fails within is told and kept for later: one side's failure leaves the other alone. Ctrl-C is no failure."""
    try:
        yield
    except Cancelled:
        raise
    except TorporError as error:
        settings.say(f"failed: {error.message}")
        failures.append(error)


def label(gib: float) -> str:
    """`16 GiB`, `64 MiB`; `no memory` for 0."""
    return size_name(gib * GIB) if gib else "no memory"


def sizes_of(settings: Settings) -> list[float]:
    """GiB to hold, ascending."""
    if settings.gib is not None:
        return sorted(set(settings.gib))
    if settings.software_gpu:
        return [1 / 64, 1 / 16]
    sizes = [0.0, 4.0] if settings.quick else [0.0, 4.0, 16.0, 48.0]
    return [size for size in sizes if size * GIB <= settings.device_memory * 0.8]


def program(gib: float, devices: int = 1) -> list[str]:
    """The job: holds `gib` GiB on each of its GPUs."""
    return [sys.executable, str(sources.path("holder.py")), "--gib", str(gib), "--devices", str(devices)]


class Room:
    """What the host has free: memory, and the file system in memory where images go."""

    def __init__(self) -> None:
        self.memory = models.host_memory()
        self.images = shutil.disk_usage(paths.dram_dir()).free

    def lacking(self, settings: Settings, side: str, size: float) -> str:
        """Why this side is left out at this size (GiB); empty where it is not.

        Torpor's image is where the bytes are moved to; the driver moves them into the process, which is then saved.
        """
        spare = 0 if settings.software_gpu else SPARE
        bytes_held = int(size * GIB)
        needed, free = bytes_held * (2 if side == DRIVER else 1) + spare, self.memory
        if needed <= free:
            needed, free = bytes_held + spare // 2, self.images
        if needed > free:
            return f"{side} left out: it needs {needed / GIB:.0f} GiB of host memory, {free / GIB:.0f} are free"
        if side == DRIVER and size >= SLOW_FROM and settings.gib is None:
            return f"{side} left out: it takes minutes (--gib {size:g} asks for it)"
        return ""


def measurements(size: str, x: float, found: Cycles, note: str, bar: bool, headline: bool) -> Iterator[Measurement]:
    """What the cycles of one size tell; `x` is its place in the figures. Sides without a cycle are left out.

    With `bar` checkpoint and restore have to be 8 times as fast as the driver's own way; with `headline` the times
    are shown at the top of the report."""
    bars = [times_faster(8, DRIVER)] if bar and found[DRIVER] else []

    def one(
        name: str,
        unit: str,
        value: Callable[[Cycle], float | None],
        figure: str,
        bars: Sequence[Bar] = (),
        better: str = "lower",
    ) -> Iterator[Measurement]:
        sides = {side: _spread(value, rows) for side, rows in found.items()}
        present = {side: value for side, value in sides.items() if value is not None}
        if present:
            yield Measurement(
                name=f"{name}, {size}",
                unit=unit,
                sides=present,
                better="higher" if better == "higher" else "lower",
                bars=list(bars),
                figures=[figure],
                panel=name,
                x=x,
                note=note,
                headline=headline and figure == "seconds",
            )

    yield from one("checkpoint", "s", lambda row: row.checkpoint, "seconds", bars)
    yield from one("restore", "s", lambda row: row.restore, "seconds", bars)
    yield from one("restore until the next step", "s", lambda row: row.next_step, "seconds", bars)
    yield from one("standstill in a checkpoint that leaves it running", "s", lambda row: row.stall, "seconds")
    yield from one("image of GPU memory", "GiB", lambda row: row.gpu_bytes / GIB, "sizes")
    yield from one("image of process memory", "GiB", lambda row: row.cpu_bytes / GIB, "sizes")
    for verb, step, name in RATES:
        yield from one(name, "GB/s", partial(_rate, verb, step), "rates", better="higher")


def _spread(value: Callable[[Cycle], float | None], rows: Sequence[Cycle]) -> Spread | None:
    known = [found for row in rows if (found := value(row)) is not None]
    return spread(known) if known else None


def _rate(verb: str, step: str, row: Cycle) -> float | None:
    """GB/s of a step; None where nothing to speak of was moved.

    The keeper counts what it copies. CRIU moves the process memory. The driver's share is not told: where all GPU
    memory is its own it is about what the process memory has grown to."""
    steps = row.checkpoint_steps if verb == "checkpoint" else row.restore_steps
    if step not in steps or steps[step]["seconds"] <= 0:
        return None
    if step.startswith("driver") and row.gpu_bytes:
        return None
    moved = steps[step]["bytes"] if step == "copy" else row.cpu_bytes
    return moved / steps[step]["seconds"] / 1e9 if moved >= GIB / 64 else None


def _phases(size: str, found: Cycles) -> Iterator[Measurement]:
    """Seconds of every step that takes some; steps side by side overlap."""
    for verb in ("checkpoint", "restore"):
        known = {side: [getattr(row, f"{verb}_steps") for row in rows] for side, rows in found.items()}
        for phase in dict.fromkeys(name for rows in known.values() for row in rows for name in row):
            sides = {
                side: spread(row[phase]["seconds"] for row in rows if phase in row)
                for side, rows in known.items()
                if any(phase in row for row in rows)
            }
            if sides and max(value.median for value in sides.values()) >= LEAST_PHASE:
                yield Measurement(
                    name=f"{verb}, {size}: {phase}",
                    unit="s",
                    sides=sides,
                    figures=["phases"],
                    panel=f"{verb}, {size}",
                    series=phase,
                )


PART = Part(
    "checkpoint",
    "Checkpoint and restore",
    run,
    needs=("checkpoints",),
    figures=(
        Figure(name="seconds", title="Checkpoint and restore against GPU memory in use", kind="lines",
               x="GPU memory in use, GiB", y="seconds"),
        Figure(
            name="rates",
            title="How fast bytes move, by step",
            kind="lines",
            x="GPU memory in use, GiB",
            y="GB/s",
            note=f"Under {TORPOR} CRIU moves little but the process itself: its time is that of other work than bytes.",
        ),
        Figure(name="sizes", title="What an image holds", kind="lines", x="GPU memory in use, GiB", y="GiB"),
        Figure(name="phases", title="Where the time goes", kind="bars", y="seconds",
               note="Steps side by side overlap: the copy runs beside the driver's checkpoint and CRIU."),
    ),
)  # fmt: skip
