"""Question: what does one iteration of training cost under Torpor?   Target: at most 0.1 % more than natively.

GPT-like decoders of about 30 M to 1 B parameters, in PyTorch with bfloat16 products and AdamW; a native copy, one
under Torpor and a second native one take turns on the same GPU. A model of 120 M parameters then runs for longer, for
what time may change; at its end all copies must have the same loss to the bit.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace

from torpor.bench import models, turns
from torpor.bench.models import Gpt
from torpor.bench.parts import Part
from torpor.bench.results import Figure, Measurement, spread, within
from torpor.bench.settings import NATIVE, Settings
from torpor.errors import TorporError

BAR = within(0.001)
USUAL = ("30m", "60m", "120m", "350m", "760m", "1b")
QUICK = ("30m", "120m")
LONG = "120m"
"""The model that runs for longer."""
POINTS, POINT_SECONDS = 60, 1.0
"""Turns of that run, and how long each lasts."""


def run(settings: Settings) -> Iterator[Measurement]:
    """Time of an iteration by size, then of one size over time."""
    known: Mapping[str, Gpt] = models.TOY_GPT if settings.software_gpu else models.GPT
    usual = tuple(known) if settings.software_gpu else QUICK if settings.quick else USUAL
    if not settings.quick:
        settings = replace(settings, batch=max(settings.batch, 0.5))  # the bar is narrow
    chosen = models.of(known, usual, settings)
    for name, model in chosen.items():
        left_out = _left_out(model, settings)
        if left_out is not None:
            settings.say(f"{name} {left_out}")
            yield Measurement(name=f"{name} parameters", unit="ms", sides={}, note=left_out)
            continue
        kind = turns.Kind(
            name=f"{name} parameters",
            ask="step",
            unit="ms",
            value=lambda ns: ns / 1e6,
            bars=(BAR,),
            figures=("time", "cost"),
            x=float(f"{model.parameters / 1e6:.3g}"),
        )
        settings.say(f"{name} parameters")
        yield from turns.compare(models.command("train.py", model, settings), [kind], settings, cores=None)
    name = next(iter(chosen)) if settings.software_gpu else LONG
    if name in chosen and _left_out(chosen[name], settings) is None:
        yield from _over_time(name, chosen[name], settings)


def _left_out(model: Gpt, settings: Settings) -> str | None:
    """Three copies live at once."""
    if settings.software_gpu:
        return None
    return models.too_large(len(turns.SIDES) * model.training_bytes, models.free_memory(settings), "three copies")


def _over_time(name: str, model: Gpt, settings: Settings) -> Iterator[Measurement]:
    """Turns of a second each for some minutes, each drawn; then all of them in one row."""
    points, seconds = (4, settings.batch) if settings.quick else (POINTS, POINT_SECONDS)
    settings.say(f"{name} parameters over time: {points} turns of {seconds:g} s for each side")
    times: dict[str, list[float]] = {side: [] for side in turns.SIDES}
    with ExitStack() as stack:
        copies = {
            side: stack.enter_context(turns.Copy(models.command("train.py", model, settings), side, settings))
            for side in turns.SIDES
        }
        kind = turns.Kind(name=name, ask="step")
        count = turns.calibrated(copies[NATIVE], kind, seconds)
        for side in turns.SIDES[1:]:
            copies[side].batch("step", count)
        begun = time.monotonic()
        for point in range(points):
            for side in turns.order(turns.SIDES, point):
                times[side].append(copies[side].batch("step", count) / 1e6)
            now = {side: found[-1] for side, found in times.items()}
            yield Measurement(
                name=f"{name} parameters, turn {point + 1}",
                unit="ms",
                sides={side: spread([value]) for side, value in now.items()},
                cost={side: spread([now[side] / now[NATIVE]]) for side in turns.SIDES[1:]},
                figures=["over-time", "over-time-cost"],
                panel=f"{name} parameters",
                x=round(time.monotonic() - begun, 2),
                in_table=False,
            )
        _same_losses(copies)
    ratios = {
        side: [other / native for native, other in zip(times[NATIVE], times[side], strict=True)]
        for side in turns.SIDES[1:]
    }
    yield Measurement(
        name=f"{name} parameters over time",
        unit="ms",
        sides={side: spread(found) for side, found in times.items()},
        cost={side: spread(found) for side, found in ratios.items()},
        bars=[BAR],
        note=f"{points} turns in {time.monotonic() - begun:.0f} s, medians of single turns; the last turn's is "
        f"{statistics.median(times[NATIVE][-3:]):.4g} ms natively; after as many steps all sides have the same loss",
    )


def _same_losses(copies: Mapping[str, turns.Copy]) -> None:
    """TorporError unless copies that made as many steps have the same loss, to the bit.

    The calibration made more of them natively: the others are brought to as many first."""
    done = {side: int(copy.ask("loss 1").split()[0]) for side, copy in copies.items()}
    most = max(done.values())
    for side, copy in copies.items():
        if done[side] < most:
            copy.batch("step", most - done[side])
    said = {side: copy.ask("loss 1") for side, copy in copies.items()}
    if len(set(said.values())) != 1:
        raise TorporError(f"copies of one program have different losses after {most} steps: {said}")


PART = Part(
    "training",
    "Training: time of an iteration",
    run,
    needs=("torch-on-gpu",),
    figures=(
        Figure(
            name="time", title="Training: time of an iteration", kind="lines", y="ms per iteration",
            x="million parameters", x_log=True,
        ),
        Figure(
            name="cost", title="Training under Torpor, relative to native", kind="cost", x="million parameters",
            x_log=True,
        ),
        Figure(
            name="over-time", title="Training over time", kind="lines", y="ms per iteration", x="seconds",
        ),
        Figure(
            name="over-time-cost", title="Training over time, relative to native", kind="cost", x="seconds",
        ),
    ),
)  # fmt: skip
