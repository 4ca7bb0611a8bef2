"""What a run of `torpor bench` leaves behind: results.json, as structures.

Times are seconds unless a unit says otherwise; sizes are bytes, GB are 1e9 and GiB 2**30 bytes.
"""

from __future__ import annotations

import math
import shlex
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from torpor import written
from torpor.errors import NotFound, UsageError

FORMAT = 1
EARLIER = " (in an earlier one of the runs joined here)"
"""What a reason ends with that is not the last run's."""

NEXT = ";"
"""Stands between the commands of runs that were joined."""


Name = Annotated[str, msgspec.Meta(pattern=r"^\w[\w-]*\Z", max_length=60)]
"""Becomes a part of a picture's file name: a results.json of somebody else writes into no other folder than told."""

LARGEST = 256 << 20
"""Bytes of a results.json that are read at most; a long run's has one or two MiB."""


class Spread(msgspec.Struct, frozen=True):
    """A median, and the interval that holds the median of many more runs with 95 %: the extremes of fewer than nine."""

    median: float
    low: float
    high: float
    n: int


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """A promise: `side` costs at most `most` times what `against` costs; with `against` None, its value is at most (or
    for what is better higher: at least) `most`."""

    side: str
    most: float
    against: str | None = "native"
    text: str


class Measurement(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One line of a part's table. `name` is unique within the part: one that is yielded again, as more turns have been
    taken, replaces what was known, so that a run that is killed has told all that it knew.

    `sides` are values by side. `cost` is what a side costs relative to native (or to the first of `sides` that has no
    cost), always so that more is slower: medians of adjacent turns, one for each group of copies. `figures` name those
    in which this is drawn, as part of the line `series`, at `x`, in the subplot `panel`. A `headline`, and one
    with bars and no cost, is also shown at the top of the report, and one that is not `in_table` only in figures.
    """

    name: str
    unit: str
    sides: dict[str, Spread]
    better: Literal["lower", "higher"] = "lower"
    cost: dict[str, Spread] = {}
    bars: list[Bar] = []
    figures: list[str] = []
    series: str = ""
    panel: str = ""
    x: float | None = None
    in_table: bool = True
    headline: bool = False
    note: str = ""


class Figure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is drawn of a part's measurements. `kind`: `lines` (values against `x`, a line for each series and side),
    `bars` (values by name or series, a bar for each side), `cost` (ratios to native, by `x` where there is one)."""

    name: Name
    title: str
    kind: Literal["lines", "bars", "cost"]
    y: str = ""
    x: str = ""
    x_log: bool = False
    x_is_bytes: bool = False
    note: str = ""


class PartResult(msgspec.Struct, kw_only=True):
    """`reason` says why a part was skipped, failed or was not finished; what it had measured by then is there."""

    name: Name
    title: str
    status: Literal["done", "skipped", "failed", "interrupted"]
    reason: str = ""
    seconds: float = 0.0
    figures: list[Figure] = []
    measurements: list[Measurement] = []

    def put(self, measurement: Measurement) -> bool:
        """Take it in, in place of what has its name. False where nothing had."""
        for place, known in enumerate(self.measurements):
            if known.name == measurement.name:
                self.measurements[place] = measurement
                return True
        self.measurements.append(measurement)
        return False


class Results(msgspec.Struct, kw_only=True):
    """`machine` names GPU, driver, processors, kernel and versions; `date` is UTC, ISO 8601."""

    format: int = FORMAT
    command: list[str]
    date: str
    backend: Literal["gpu", "sim"]
    software_gpu: bool
    vm: str
    quick: bool
    machine: dict[str, str]
    parts: list[PartResult] = []


def spread(values: Iterable[float]) -> Spread:
    """Median of at least one value, and the order statistics between which the true median lies with 95 %."""
    ordered = sorted(values)
    n = len(ordered)
    # P(the median is below the k-th smallest) is that of fewer than k heads in n tosses.
    outside, k = 1 / 2**n, 0
    while k + 1 < (n + 1) // 2 and 2 * (outside + math.comb(n, k + 1) / 2**n) <= 0.05:
        k += 1
        outside += math.comb(n, k) / 2**n
    return Spread(statistics.median(ordered), ordered[k], ordered[n - 1 - k], n)


def relative(measurement: Measurement, side: str, against: str) -> Spread | None:
    """What `side` costs relative to `against`; None where either is not there.

    From the turns where they were taken against `against`, else from both sides' values.
    """
    sides, cost = measurement.sides, measurement.cost
    if against == "native" and side in cost:
        return cost[side]
    if side not in sides or against not in sides:
        return None
    of, to = sides[side], sides[against]
    if measurement.better == "higher":
        of, to = to, of
    if min(to.median, to.low, to.high) <= 0:
        return None
    return Spread(of.median / to.median, of.low / to.high, of.high / to.low, min(of.n, to.n))


def final(found: Iterable[Measurement]) -> list[Measurement]:
    """What a part yielded, each name as it was yielded last."""
    return list({one.name: one for one in found}.values())


def within(share: float, side: str = "torpor") -> Bar:
    """The bar "at most this share slower than native"."""
    return Bar(side=side, most=1 + share, text=f"≤ {share * 100:g} % over native")


def times_faster(times: float, against: str, side: str = "torpor") -> Bar:
    """The bar "at least so many times as fast as"."""
    return Bar(side=side, most=1 / times, against=against, text=f"≥ {times:g} × as fast as {against}")


def save(results: Results, path: Path) -> None:
    """Write results.json anew, whole or not at all."""
    written.data(path, msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")


def told(command: Sequence[str]) -> str:
    """As one types it; of joined runs one after the other: `torpor bench raw; torpor bench launch`."""
    commands: list[list[str]] = [[]]
    for word in command:
        if word == NEXT:
            commands.append([])
        else:
            commands[-1].append(word)
    return "; ".join(map(shlex.join, commands))


def load(path: Path) -> Results:
    """Read results.json (or the folder that holds it). NotFound, or UsageError where it is something else."""
    file = path / "results.json" if path.is_dir() else path
    try:
        with file.open("rb") as opened:
            data = opened.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise UsageError(f"{file} is not what `torpor bench` writes: it is too large")
        found = msgspec.json.decode(data, type=Results)
    except FileNotFoundError:
        raise NotFound(f"there is no {file}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} is not what `torpor bench` writes: {error}") from None
    if found.format != FORMAT:
        raise UsageError(f"{file} has format {found.format}, this version reads {FORMAT}")
    return found


def _joined(earlier: PartResult | None, later: PartResult) -> PartResult:
    """The later run of a part, with what only the earlier one measured (other models, other sizes) before it.

    A later one that came to nothing, as it was skipped or broken off before, changes nothing. Where something is kept
    of an earlier one that was not done, the whole is not done either.
    """
    if earlier is None:
        return later
    if not later.measurements and later.status in ("skipped", "interrupted"):
        return earlier
    again = {measurement.name for measurement in later.measurements}
    kept = [measurement for measurement in earlier.measurements if measurement.name not in again]
    joined = msgspec.structs.replace(
        later, measurements=kept + later.measurements, seconds=(earlier.seconds if kept else 0.0) + later.seconds
    )
    if kept and later.status == "done" and earlier.status != "done":
        joined.status, joined.reason = earlier.status, earlier.reason.removesuffix(EARLIER) + EARLIER
    return joined


def merged(found: Sequence[Results]) -> Results:
    """Several runs on one machine as one; what was measured again counts as it was in the last."""
    first = found[0]
    for other in found[1:]:
        for key in ("gpu", "processors", "kernel"):
            one, another = first.machine.get(key), other.machine.get(key)
            if one != another:
                raise UsageError(
                    f"the runs are of different machines: {key} is {one} and {another}",
                    hint="`torpor bench compare A B` sets two machines against each other",
                )
        if (other.backend, other.vm) != (first.backend, first.vm):
            raise UsageError("the runs differ in --vm or in what they ran on", hint="draw them one by one")
    parts: dict[str, PartResult] = {}
    for run in found:
        parts.update({part.name: _joined(parts.get(part.name), part) for part in run.parts})
    return msgspec.structs.replace(
        first,
        command=[word for one in found for word in [*one.command, NEXT]][:-1],
        quick=any(one.quick for one in found),
        parts=list(parts.values()),
    )
