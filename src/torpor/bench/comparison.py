"""Two runs set against each other: what got better or worse by more than both spreads and, of ratios, their noise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from torpor.bench.results import PartResult, Results, Spread, told
from torpor.bench.settings import CONTROL, TORPOR
from torpor.bench.verdict import FEW, noise_of

Change = Literal["better", "worse", "same", "too few runs", "gone", "new"]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """`what`: a side's own value, or its cost relative to native. `times`: the second median over the first."""

    part: str
    name: str
    side: str
    what: Literal["value", "cost"]
    unit: str
    change: Change
    first: Spread | None = None
    second: Spread | None = None
    times: float | None = None

    @property
    def is_worse_for_torpor(self) -> bool:
        """Whether the layer has become slower: what it costs relative to native, or its value where there is no
        such."""
        return self.change == "worse" and self.side.startswith(TORPOR)


def compare(first: Results, second: Results) -> list[Row]:
    """Every side of every measurement that either run has, in the second's order, then what only the first has. Points
    of a curve, as of one over time, are none: only the whole of it can be compared.

    A side with a cost relative to native is judged by that: its own value follows the machine's mood.
    """
    before, after = ({part.name: part for part in run.parts} for run in (first, second))
    return [row for name in dict.fromkeys([*after, *before]) for row in _part(name, before.get(name), after.get(name))]


def _part(name: str, before: PartResult | None, after: PartResult | None) -> Iterator[Row]:
    old, new = ({m.name: m for m in part.measurements if m.in_table} if part else {} for part in (before, after))
    for key in dict.fromkeys([*new, *old]):
        if key not in old or key not in new:
            present, change = (new[key], "new") if key in new else (old[key], "gone")
            yield Row(part=name, name=key, side="", what="value", unit=present.unit, change=change)  # type: ignore[arg-type]
            continue
        one, other = old[key], new[key]
        if one.unit != other.unit:
            yield Row(part=name, name=key, side="", what="value", unit=f"{one.unit} → {other.unit}", change="new")
            continue
        for side in (side for side in other.sides if side in one.sides and side != CONTROL):
            if side in one.cost and side in other.cost:
                noise = noise_of(one) + noise_of(other)
                yield _row(name, key, side, "cost", "", "lower", one.cost[side], other.cost[side], noise)
            else:
                yield _row(name, key, side, "value", one.unit, one.better, one.sides[side], other.sides[side], 0.0)


def _row(
    part: str,
    name: str,
    side: str,
    what: Literal["value", "cost"],
    unit: str,
    better: str,
    first: Spread,
    second: Spread,
    noise: float,
) -> Row:
    change: Change = "same"
    if first.n < FEW or second.n < FEW:
        change = "too few runs"
    elif second.low > first.high + noise:
        change = "worse" if better == "lower" else "better"
    elif second.high < first.low - noise:
        change = "better" if better == "lower" else "worse"
    times = second.median / first.median if first.median else None
    return Row(
        part=part, name=name, side=side, what=what, unit=unit, change=change, first=first, second=second, times=times
    )


def differences(first: Results, second: Results) -> list[str]:
    """What the runs differ in besides their figures: machine, versions, ways, what was cut; one line each."""
    keys = dict.fromkeys([*first.machine, *second.machine])
    found = [
        f"{key}: {first.machine.get(key, '-')} → {second.machine.get(key, '-')}"
        for key in keys
        if first.machine.get(key) != second.machine.get(key)
    ]
    for name in ("backend", "vm", "quick"):
        if getattr(first, name) != getattr(second, name):
            found.append(f"{name}: {getattr(first, name)} → {getattr(second, name)}")
    if first.command != second.command:  # as in the requests to serve, which make other figures
        found.append(f"command: {told(first.command)} → {told(second.command)}")
    before, after = ({part.name: part.status for part in run.parts} for run in (first, second))
    found += [
        f"part {name}: {before[name]} → {after[name]}"
        for name in after
        if before.get(name, after[name]) != after[name]
    ]
    return found
