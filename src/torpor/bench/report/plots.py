"""A PNG of each figure: the machine in a corner, units on the axes, ratios on axes from zero."""

from __future__ import annotations

import importlib.util
import io
import math
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torpor import written
from torpor.bench.report import tables
from torpor.bench.results import Figure, Measurement, Results, Spread
from torpor.bench.settings import CONTROL, DRIVER, NATIVE, TORPOR
from torpor.errors import MissingPart

SHADES = {
    NATIVE: "#4d4d4d",
    CONTROL: "#a6a6a6",
    TORPOR: "#0072b2",
    f"{TORPOR} hbm": "#003f66",
    f"{TORPOR} dram": "#0072b2",
    f"{TORPOR} dram, then disk": "#3395cc",
    f"{TORPOR} disk": "#62b5e5",
    DRIVER: "#d55e00",
    f"{DRIVER} disk": "#f0a060",
}
OTHERS = ("#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c510a", "#6a3d9a")
MARKS = "osD^vPX*<>"
LINES = ("-", "--", ":", "-.")
MOST_NUMBERS, MOST_ROWS = 20, 6
"""Up to so many points on so many lines are also told as numbers."""

COLOURS = 64
"""Lines, bars and letters have fewer; pages and repositories keep a third of the bytes."""


def available() -> bool:
    """Whether matplotlib is installed (`pip install 'torpor[plots]'`)."""
    return importlib.util.find_spec("matplotlib") is not None


def draw(found: Results, folder: Path) -> dict[str, Path]:
    """Write `<part>-<figure>.png` of every figure that has something to show; paths by that name. MissingPart."""
    if not available():
        raise MissingPart("matplotlib is not installed", hint="pip install matplotlib")
    drawn = {}
    for part in found.parts:
        for figure in part.figures:
            shown = [measurement for measurement in part.measurements if figure.name in measurement.figures]
            if shown:
                name = f"{part.name}-{figure.name}"
                drawn[name] = folder / f"{name}.png"
                _save(canvas_of(figure, shown, found), drawn[name])
    return drawn


@contextmanager
def _as_written() -> Iterator[None]:
    """Within, a `$` in a name is a `$`, and not the beginning of a formula, which might be none."""
    from matplotlib import rc_context

    with rc_context({"text.parse_math": False}):
        yield


def _save(canvas: Any, path: Path) -> None:
    from PIL import Image  # matplotlib's own requirement

    drawn = io.BytesIO()
    with _as_written():  # ticks are made as they are drawn
        canvas.savefig(drawn, dpi=120)
    few = Image.open(drawn).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    small = io.BytesIO()
    few.save(small, format="PNG", optimize=True)
    written.data(path, small.getvalue())


def canvas_of(figure: Figure, shown: Sequence[Measurement], found: Results) -> Any:
    """The figure as matplotlib has it."""
    with _as_written():
        return _canvas_of(figure, shown, found)


def _canvas_of(figure: Figure, shown: Sequence[Measurement], found: Results) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    panels = list(dict.fromkeys(measurement.panel for measurement in shown))
    columns = min(2, len(panels))
    rows = math.ceil(len(panels) / columns)
    lying = figure.kind == "bars" or not any(measurement.x is not None for measurement in shown)
    most = max(sum(m.panel == panel for m in shown) for panel in panels)
    height = max(4.4, 1.2 + 0.62 * most) if lying else 4.4
    canvas = Canvas(figsize=(9.0 if columns == 1 else 13.0, height * rows + 1.0))
    FigureCanvasAgg(canvas)
    grid = canvas.subplots(rows, columns, squeeze=False)
    top = _reach_of(shown, figure)
    for axes, panel in zip(grid.flat, panels, strict=False):
        chosen = [measurement for measurement in shown if measurement.panel == panel]
        if lying:
            _lying(axes, figure, chosen)
        else:
            _by_x(axes, figure, chosen)
            axes.set_ylim(0, top * 1.08 if top > 0 else 1.0)  # the same for all, so that they can be compared
        if panel:
            axes.set_title(panel, fontsize=10)
    for axes in list(grid.flat)[len(panels) :]:
        axes.set_axis_off()
    _frame(canvas, figure, found)
    return canvas


def _frame(canvas: Any, figure: Figure, found: Results) -> None:
    """Title, below it in red what a reader must not overlook, and the machine at the lower left."""
    width, height = canvas.get_size_inches()
    canvas.text(0.01, 1 - 0.1 / height, figure.title, fontsize=12, va="top")
    warning = ["SOFTWARE GPU: says nothing about speed"] * found.software_gpu + ["QUICK RUN"] * found.quick
    if warning:
        canvas.text(0.01, 1 - 0.36 / height, ", ".join(warning), fontsize=9, color="#b00020", va="top")
    machine = _between_facts(tables.machine_line(found), int(width * 18))
    foot = [machine, *([textwrap.fill(figure.note, int(width * 18))] if figure.note else [])]
    canvas.text(0.01, 0.06 / height, "\n".join(reversed(foot)), fontsize=7, color="#555555", va="bottom")
    lines = "\n".join(foot).count("\n") + 1
    canvas.tight_layout(rect=(0, (0.1 + 0.14 * lines) / height, 1, 1 - (0.55 if warning else 0.35) / height))


def _between_facts(line: str, width: int) -> str:
    """A line of facts with dots in between, broken after dots only."""
    whole = line.replace(" ", "\u00a0").replace("\u00a0·\u00a0", "\u00a0· ")
    return textwrap.fill(whole, width, break_on_hyphens=False).replace("\u00a0", " ")


def _shade(side: str, sides: Sequence[str]) -> str:
    unknown = [name for name in sides if name not in SHADES]
    return SHADES[side] if side in SHADES else OTHERS[unknown.index(side) % len(OTHERS)]


def _values(measurement: Measurement, figure: Figure) -> dict[str, Spread]:
    """What is drawn by side: ratios to native, or the values (without the control, which is native)."""
    if figure.kind == "cost":
        return measurement.cost
    return {side: value for side, value in measurement.sides.items() if side != CONTROL}


def _reach_of(shown: Sequence[Measurement], figure: Figure) -> float:
    """How far the axis of values has to go; where ratios are shown, 1 is always to be seen."""
    highest = [value.high for measurement in shown for value in _values(measurement, figure).values()]
    return max([*highest, 1.0] if figure.kind == "cost" else highest, default=1.0)


def _reach(value: Spread) -> tuple[list[float], list[float]]:
    """Lengths of the error bar below and above; of one run there is none."""
    if value.n == 1:
        return [math.nan], [math.nan]
    return [max(0.0, value.median - value.low)], [max(0.0, value.high - value.median)]


def _lying(axes: Any, figure: Figure, shown: Sequence[Measurement]) -> None:
    """Lying bars from zero: one group for each measurement, one bar for each side, each with its number."""
    sides = list(dict.fromkeys(side for measurement in shown for side in _values(measurement, figure)))
    thick = 0.8 / max(1, len(sides))
    longest = _reach_of(shown, figure)
    for place, measurement in enumerate(shown):
        for number, side in enumerate(sides):
            value = _values(measurement, figure).get(side)
            if value is None:
                continue
            at = place + (number - (len(sides) - 1) / 2) * thick
            label = side if side not in axes.get_legend_handles_labels()[1] else None
            axes.barh(at, value.median, thick * 0.92, color=_shade(side, sides), label=label)
            axes.errorbar(value.median, at, xerr=_reach(value), color="black", linewidth=1, capsize=2)
            said = f"{value.median:.4f}" if figure.kind == "cost" else tables.number(value.median)
            ground = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
            axes.text(value.high + longest * 0.012, at, said, va="center", fontsize=8, bbox=ground)
    axes.set_yticks(range(len(shown)), [textwrap.fill(m.series or m.name, 34) for m in shown], fontsize=9)
    axes.invert_yaxis()
    axes.set_xlim(0, longest * 1.24)
    axes.set_xlabel(figure.y or ("time relative to native" if figure.kind == "cost" else shown[0].unit))
    if figure.kind == "cost":
        axes.axvline(1.0, color="black", linewidth=0.8)
        _show_bars(axes, shown, axes.axvline)
    axes.grid(axis="x", color="#e5e5e5", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8, frameon=False)


def _by_x(axes: Any, figure: Figure, shown: Sequence[Measurement]) -> None:
    """Lines against `x`: one for each series and side."""
    sides = list(dict.fromkeys(side for measurement in shown for side in _values(measurement, figure)))
    series = list(dict.fromkeys(measurement.series for measurement in shown))
    for number, name in enumerate(series):
        for side in sides:
            points = [
                (measurement.x, _values(measurement, figure)[side])
                for measurement in sorted(shown, key=lambda measurement: measurement.x or 0.0)
                if measurement.series == name and side in _values(measurement, figure) and measurement.x is not None
            ]
            if not points:
                continue
            label = f"{name}, {side}" if name else side
            xs, ys = [x for x, _ in points], [value.median for _, value in points]
            reach = [[_reach(value)[which][0] for _, value in points] for which in (0, 1)]
            axes.errorbar(
                xs,
                ys,
                yerr=reach,
                label=label,
                color=_shade(side, sides),
                marker=MARKS[number % len(MARKS)],
                linestyle=LINES[number % len(LINES)],
                markersize=8 if side == sides[0] else 4,  # where they meet, both are to be seen
                fillstyle="none" if side == sides[0] else "full",
                linewidth=1.3,
                elinewidth=0.8,
                capsize=4 if side == sides[0] else 2,
            )
    if figure.kind == "cost":
        axes.axhline(1.0, color="black", linewidth=0.8)
        _show_bars(axes, shown, axes.axhline)
    if figure.x_log and all(measurement.x for measurement in shown):
        axes.set_xscale("log", base=2 if figure.x_is_bytes else 10)
        axes.xaxis.set_major_formatter(lambda value, _place: tables.number(value))  # the usual one writes formulas
    known = sorted({measurement.x for measurement in shown if measurement.x is not None})
    if figure.x_is_bytes:
        _name_sizes(axes, known)
    elif len(known) <= 6:
        axes.set_xticks(known, [tables.number(value) for value in known])
        axes.minorticks_off()
    rows = _number_rows(axes, figure, shown) if len(known) <= MOST_NUMBERS else 0
    axes.set_xlabel(figure.x, labelpad=4 + (8 + 11 * rows if rows else 0))
    axes.set_ylabel(figure.y or ("time relative to native" if figure.kind == "cost" else shown[0].unit))
    axes.grid(color="#e5e5e5", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.legend(fontsize=8, frameon=False, loc="best")


def _number_rows(axes: Any, figure: Figure, shown: Sequence[Measurement]) -> int:
    """Below the axis the values themselves, a row for each line: on an axis from zero a percent is not to be seen.

    The control has none. Returns how many rows there are: none where they would be too many."""
    sides = list(dict.fromkeys(side for m in shown for side in _values(m, figure)))
    names = dict.fromkeys(m.series for m in shown)
    rows = [(name, side) for name in names for side in sides if side != CONTROL]
    if len(rows) > MOST_ROWS:
        return 0
    for number, (name, side) in enumerate(rows):
        below = -0.115 - 0.05 * number
        label = name if figure.kind == "cost" and name else f"{name}, {side}" if name else side
        axes.text(-0.012, below, label, transform=axes.transAxes, ha="right", va="center", fontsize=7)
        for measurement in shown:
            value = _values(measurement, figure).get(side)
            if measurement.series == name and value is not None:
                said = f"{value.median:.3f}" if figure.kind == "cost" else tables.number(value.median)
                axes.text(
                    measurement.x, below, said, transform=axes.get_xaxis_transform(), ha="center", va="center",
                    fontsize=7, color=_shade(side, sides),
                )  # fmt: skip
    return len(rows)


def _show_bars(axes: Any, shown: Sequence[Measurement], line: Any) -> None:
    """The bars that all of these share, as dotted lines."""
    common = {(bar.most, bar.text) for m in shown for bar in m.bars if bar.against == NATIVE}
    if len(common) == 1:
        ((most, text),) = common
        line(most, color="#b00020", linewidth=0.9, linestyle=":", label=f"bar: {text}")
    del axes


def _name_sizes(axes: Any, sizes: Sequence[float]) -> None:
    """Ticks in powers of 1024: `8 B`, `64 KiB`."""
    step = max(1, math.ceil(len(sizes) / 9))
    axes.set_xticks(list(sizes)[::step], [tables.size_name(size) for size in list(sizes)[::step]], fontsize=8)
    axes.minorticks_off()
