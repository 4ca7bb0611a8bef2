"""A bar beside what was measured: met, missed, or not to be told from noise."""

from __future__ import annotations

from typing import Literal

from torpor.bench.results import Bar, Measurement, Spread, relative
from torpor.bench.settings import CONTROL, NATIVE

Verdict = Literal["met", "missed", "within noise", "too few runs", "not measured"]

FEW = 3
"""With fewer runs than these nobody knows the spread: nothing is said of a ratio to native, or of a change."""


def judged(measurement: Measurement, bar: Bar) -> Verdict:
    """Met or missed only where the whole interval lies on that side of the bar.

    The interval is widened by noise (`noise_of`). What was not measured in turns may have run once, as the driver's
    own way does, which is slow: then its median decides.
    """
    found = judged_on(measurement, bar)
    if found is None:
        return "not measured"
    if bar.against == NATIVE and found.n < FEW:
        return "too few runs"
    noise = noise_of(measurement) if bar.against == NATIVE else 0.0
    low, high, most = found.low - noise, found.high + noise, bar.most
    if bar.against is None and measurement.better == "higher":
        low, high, most = -high, -low, -most
    if high <= most:
        return "met"
    return "missed" if low > most else "within noise"


def noise_of(measurement: Measurement) -> float:
    """What the control's median, of a second native copy, differs from native; 0 where there was no such copy."""
    control = measurement.cost.get(CONTROL)
    return abs(control.median - 1) if control is not None else 0.0


def judged_on(measurement: Measurement, bar: Bar) -> Spread | None:
    """What the bar is laid upon: a ratio, or the side's own values; None where the side was not measured."""
    if bar.against is None:
        return measurement.sides.get(bar.side)
    return relative(measurement, bar.side, bar.against)
