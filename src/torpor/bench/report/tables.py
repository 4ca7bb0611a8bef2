"""A part's measurements as rows of text, for Markdown, HTML and the command line alike."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from torpor.bench import verdict
from torpor.bench.results import Measurement, PartResult, Results, Spread
from torpor.bench.settings import CONTROL, DRIVER, NATIVE, TORPOR

SOFTWARE_GPU = "Measured on the software GPU: it shows that the benchmark works, and says nothing about speed."
QUICK = "A quick run: too few turns for a verdict."


@dataclass(frozen=True)
class Table:
    """`columns` head the `rows`, which have as many cells each."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]


def number(value: float) -> str:
    """Four significant digits, never in powers of ten."""
    if value == 0:
        return "0"
    text = f"{value:.4g}" if 1e-4 <= abs(value) < 1e4 else f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:.7f}"
    return text.rstrip("0") if "." in text and "e" not in text and text.endswith("0") else text


def size_name(size: float) -> str:
    """A whole number of the largest unit that fits: `64 KiB`."""
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:g} {unit}"
        size /= 1024
    return f"{size:g} GiB"


def spread(found: Spread | None) -> str:
    """`12.3 (12.1 to 12.9)`; one run is one figure."""
    if found is None:
        return ""
    if found.n == 1 or found.low == found.high:
        return number(found.median)
    return f"{number(found.median)} ({number(found.low)} to {number(found.high)})"


def cost(found: Spread | None) -> str:
    """A ratio: `1.004 (0.998 to 1.010)`."""
    if found is None:
        return ""
    if found.n == 1:
        return f"{found.median:.3f}"
    return f"{found.median:.4f} ({found.low:.4f} to {found.high:.4f})"


def bars(measurement: Measurement) -> str:
    """Each bar with its verdict: `≤ 1 % over native: met`."""
    return "; ".join(f"{bar.text}: {verdict.judged(measurement, bar)}" for bar in measurement.bars)


def of_part(part: PartResult) -> Table:
    """Values of every side, what the sides cost relative to native, bars with verdicts; columns that are empty left
    out."""
    shown = [measurement for measurement in part.measurements if measurement.in_table]
    sides = list(dict.fromkeys(side for measurement in shown for side in measurement.sides if side != CONTROL))
    costs = list(dict.fromkeys(side for measurement in shown for side in measurement.cost))
    judged = any(measurement.bars for measurement in shown)
    columns = ("", "unit", *sides, *(f"{side} / {NATIVE}" for side in costs), *(("bar",) if judged else ()))
    rows = tuple(
        (
            measurement.name,
            measurement.unit,
            *(spread(measurement.sides.get(side)) for side in sides),
            *(cost(measurement.cost.get(side)) for side in costs),
            *((bars(measurement),) if judged else ()),
        )
        for measurement in shown
    )
    notes = tuple(dict.fromkeys(f"{m.name}: {m.note}" for m in shown if m.note))
    return Table(columns, rows, notes)


def glance(found: Results) -> list[Table]:
    """The whole in a few lines: what each part's kinds cost relative to native, and the values of headlines and of what
    has a bar but no such cost."""
    costs = tuple(row for part in found.parts if (row := _glance(part)) is not None)
    columns = ("part", "kinds", f"{TORPOR} / {NATIVE}", "highest", "of", f"{CONTROL} / {NATIVE}", "bars")
    chosen = [(part, m) for part in found.parts for m in part.measurements if _is_headline(m)]
    sides = list(dict.fromkeys(side for _, m in chosen for side in m.sides if side != CONTROL))
    values = tuple(
        (part.name, m.name, m.unit, *(spread(m.sides.get(side)) for side in sides), bars(m)) for part, m in chosen
    )
    tables = [Table(columns, costs, ())] if costs else []
    return [*tables, Table(("part", "", "unit", *sides, "bars"), values, ())] if values else tables


def _is_headline(measurement: Measurement) -> bool:
    return measurement.headline or (bool(measurement.bars) and TORPOR not in measurement.cost)


def _glance(part: PartResult) -> tuple[str, ...] | None:
    """A line for a part whose kinds have a cost relative to native: their median, the highest, the control's range."""
    known = [m for m in part.measurements if TORPOR in m.cost and m.in_table]
    if not known:
        return None
    highest = max(known, key=lambda m: m.cost[TORPOR].median)
    control = [m.cost[CONTROL].median for m in known if CONTROL in m.cost]
    return (
        part.name,
        str(len(known)),
        f"{statistics.median(m.cost[TORPOR].median for m in known):.3f}",
        f"{highest.cost[TORPOR].median:.3f}",
        highest.name,
        f"{min(control):.3f} to {max(control):.3f}" if control else "",
        _counted(verdicts([part])),
    )


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {said}" for said, count in sorted(counts.items()))


def status(part: PartResult) -> str:
    """How a part that is not done ended; empty where it is."""
    return "" if part.status == "done" else f"{part.status}: {part.reason}"


def legend(found: Results) -> list[str]:
    """What a reader must know before any figure."""
    lines = [SOFTWARE_GPU] if found.software_gpu else []
    if found.quick:
        lines.append(QUICK)
    lines.append(
        "Medians, in brackets the interval that holds the median of many more runs with 95 % (of fewer than nine: the "
        "lowest and the highest); one run, and runs that are all alike, have none. "
        f"Ratios to {NATIVE} are medians of the ratios of adjacent turns, which the medians beside them need not give, "
        f"always so that more is slower; {CONTROL} is a second native copy: what it differs from 1 is noise. A bar is "
        "met or missed where the whole interval, widened by that noise, is on one side of it."
    )
    sides = {side for part in found.parts for measurement in part.measurements for side in measurement.sides}
    if any(side.startswith(DRIVER) for side in sides):
        lines.append(
            f"{DRIVER} is the driver's own checkpoint, which brings GPU memory into the process's, with CRIU. Its "
            "images and Torpor's are in memory where no place is named. A bar against it goes by one run where there "
            "is one."
        )
    if any(side.startswith(f"{TORPOR} ") for side in sides):
        lines.append(
            "Where the bytes of a job that sleeps are: hbm, in GPU memory, and its process stays; dram, in an image in "
            "the host's memory; disk, in an image on the disk."
        )
    return lines


def verdicts(parts: Iterable[PartResult]) -> dict[str, int]:
    """How many bars were met, missed, or not to be told from noise."""
    said = [verdict.judged(m, bar) for part in parts for m in part.measurements for bar in m.bars]
    return {one: said.count(one) for one in dict.fromkeys(said)}


def machine_line(found: Results) -> str:
    """The machine in one line, for the corner of a plot."""
    known = found.machine
    words = [
        known.get("gpu", ""),
        ", ".join(filter(None, (f"{known.get('processors', '?')} processors", known.get("processor")))),
    ]
    words += [known.get("memory", ""), f"kernel {known.get('kernel', '?')}"]
    words += [f"{name} {known[name]}" for name in ("torpor", "torch") if name in known]
    return " · ".join(word for word in [*words, f"--vm {found.vm}", found.date] if word)
