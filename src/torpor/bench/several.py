"""Question: is it the same on several GPUs?   Target: launches and copies between GPUs at most 1 % over native.

Launches by one thread for each GPU at once, copies from one GPU to the next, and checkpoint and restore of a job that
holds memory on each: on 2, 4, 7 and all of the GPUs present, beside one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace

from torpor import api
from torpor.bench import checkpoints, cycles, models, parts, sources, turns
from torpor.bench.checkpoints import GIB, Cycles
from torpor.bench.launches import per_second
from torpor.bench.parts import Part
from torpor.bench.report.tables import size_name
from torpor.bench.results import Figure, Measurement, within
from torpor.bench.settings import DRIVER, TORPOR, Settings

BAR, TRAINING_BAR = within(0.01), within(0.001)
MODEL = "120m"
COUNTS = (1, 2, 4, 7)


def run(settings: Settings) -> Iterator[Measurement]:
    """Launches, copies and training in turns, then cycles."""
    counts = counts_of(settings)
    launches = [str(sources.compiled("launches", settings.scratch))]
    yield from turns.compare(launches, [_launches(count) for count in counts], settings, cores=max(counts))
    copies = [sys.executable, str(sources.path("raw_driver.py"))]
    sizes = (1 << 20,) if settings.software_gpu else (1 << 20, 1 << 30)
    yield from turns.compare(copies, [_copy(size) for size in sizes], settings)
    yield from _training(settings, counts)
    yield from _cycles(settings, counts)


def counts_of(settings: Settings) -> list[int]:
    """How many GPUs are used: 1, 2, 4, 7 and all, as far as they are there."""
    return sorted({count for count in (*COUNTS, settings.devices) if count <= settings.devices})


def gib_each(settings: Settings) -> float:
    """GiB for a job to hold on each GPU."""
    if settings.gib is not None:
        return max(settings.gib)
    return 1 / 64 if settings.software_gpu else 1.0 if settings.quick else 4.0


def _launches(count: int) -> turns.Kind:
    return turns.Kind(
        name=f"launches on {_gpus(count)} at once",
        ask=f"devices:{count}",
        unit="1000/s",
        better="higher",
        value=per_second,
        bars=(BAR,),
        figures=("rate", "cost"),
        x=count,
    )


def _copy(size: int) -> turns.Kind:
    return turns.Kind(
        name=f"copies of {size_name(size)} from one GPU to the next",
        ask=f"peer:{size}",
        unit="GB/s",
        better="higher",
        value=lambda ns: size / ns,
        bars=(BAR,),
        figures=("peer",),
        series=size_name(size),
    )


def _training(settings: Settings, counts: list[int]) -> Iterator[Measurement]:
    """Time of an iteration against GPUs, each of which has a batch of its own."""
    lacking = parts.NEEDS["torch-on-gpu"](settings)
    if lacking is not None:
        yield Measurement(name="training", unit="ms", sides={}, note=f"left out: {lacking}")
        return
    name, model = next(iter(models.TOY_GPT.items())) if settings.software_gpu else (MODEL, models.GPT[MODEL])
    if not settings.quick:
        settings = replace(settings, batch=max(settings.batch, 0.5), groups=min(settings.groups, 3))
    for count in counts:
        rest = ("--gpus", str(count), "--folder", str(settings.scratch))  # what a killed one leaves there goes with it
        command = models.command("train_parallel.py", model, settings, *rest)
        kind = turns.Kind(
            name=f"training {name} on {_gpus(count)}",
            ask="step",
            unit="ms",
            value=lambda ns: ns / 1e6,
            bars=(TRAINING_BAR,),
            figures=("training", "training-cost"),
            x=count,
        )
        yield from turns.compare(command, [kind], settings, cores=None)


def _cycles(settings: Settings, counts: list[int]) -> Iterator[Measurement]:
    lacking = parts.NEEDS["checkpoints"](settings)
    if lacking is not None:
        yield Measurement(name="checkpoint and restore", unit="s", sides={}, note=f"left out: {lacking}")
        return
    each, failures = gib_each(settings), list[BaseException]()
    for count in counts:
        found: Cycles = {DRIVER: [], TORPOR: []}
        size = f"{_gpus(count)} with {checkpoints.label(each)} each"
        bar, last = count * each >= checkpoints.BAR_FROM, count == counts[-1]
        for side, repeats in ((DRIVER, settings.driver_repeats), (TORPOR, settings.repeats)):
            with checkpoints.kept(failures, settings):
                api.keeper_stop(settings.backend)
                if side == TORPOR:
                    api.keeper_warm(settings.backend, int(each * count * GIB))
                for turn in range(repeats):
                    settings.say(f"{_gpus(count)}, {side}, cycle {turn + 1} of {repeats}")
                    program = checkpoints.program(each, count)
                    found[side].append(cycles.live(program, arena=side == TORPOR, stall=True, vm=settings.vm))
                    yield from checkpoints.measurements(size, count, found, "", bar=bar, headline=last)
    if failures:
        raise failures[0]


def _gpus(count: int) -> str:
    return f"{count} GPU{'s' * (count > 1)}"


PART = Part(
    "gpus",
    "Several GPUs",
    run,
    needs=("several-gpus", "compiler"),
    figures=(
        Figure(
            name="rate",
            title="Null-kernel launches, one thread for each GPU",
            kind="lines",
            x="GPUs",
            y="launches a second, thousands",
        ),
        Figure(name="cost", title="Launches on several GPUs, relative to native", kind="cost", x="GPUs"),
        Figure(name="peer", title="Copies from one GPU to the next", kind="bars", y="GB/s"),
        Figure(name="training", title="Data-parallel training", kind="lines", x="GPUs", y="ms per iteration"),
        Figure(name="training-cost", title="Data-parallel training, relative to native", kind="cost", x="GPUs"),
        Figure(name="seconds", title="Checkpoint and restore on several GPUs", kind="lines", x="GPUs", y="seconds"),
        Figure(name="rates", title="How fast bytes move, by step", kind="lines", x="GPUs", y="GB/s"),
        Figure(name="sizes", title="What an image holds", kind="lines", x="GPUs", y="GiB"),
    ),
)
