"""Question: what do copies between host and device cost, at every size?   Target: at most 1 % over native.

From 8 B to 1 GiB, into the device and out of it, pinned and pageable host memory, waited for one by one or put into a
stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from torpor.bench import sources, turns
from torpor.bench.parts import Part
from torpor.bench.report.tables import size_name
from torpor.bench.results import Figure, Measurement, within
from torpor.bench.settings import Settings

BAR = within(0.01)
SIZES = (8, 256, 4 << 10, 64 << 10, 1 << 20, 16 << 20, 128 << 20, 1 << 30)
SMALL = 64 << 10
"""Up to this size a copy's time is told, from it on its bandwidth is drawn."""
WAYS = {"sync": "one by one", "async": "in a stream"}


def run(settings: Settings) -> Iterator[Measurement]:
    """Every direction, memory, way and size; large ones on the software GPU would only measure its memcpy."""
    settings = replace(settings, groups=min(settings.groups, 5), rounds=min(settings.rounds, 6))
    sizes = SIZES[:5:2] if settings.software_gpu else SIZES[::3] if settings.quick else SIZES
    kinds = [
        _kind(direction, memory, way, size)
        for direction in ("in", "out")
        for memory in ("pinned", "pageable")
        for way in WAYS
        for size in sizes
    ]
    yield from turns.compare([str(sources.compiled("transfers", settings.scratch))], kinds, settings)


def _kind(direction: str, memory: str, way: str, size: int) -> turns.Kind:
    large = size > SMALL
    return turns.Kind(
        name=f"{size_name(size)} {direction}, {memory}, {WAYS[way]}",
        ask=f"{direction}:{memory}:{way}:{size}",
        unit="GB/s" if large else "µs",
        better="higher" if large else "lower",
        value=(lambda ns: size / ns) if large else turns.microseconds,
        bars=(BAR,),
        figures=("large" if large else "small", "cost"),
        series=memory,
        panel=f"{direction}, {WAYS[way]}",
        x=float(size),
    )


PART = Part(
    "transfers",
    "Transfers between host and device",
    run,
    needs=("compiler",),
    figures=(
        Figure(name="small", title="Small copies", kind="lines", x="size of a copy", y="µs per copy", x_log=True,
               x_is_bytes=True),
        Figure(name="large", title="Large copies", kind="lines", x="size of a copy", y="GB/s", x_log=True,
               x_is_bytes=True),
        Figure(name="cost", title="Copies, relative to native", kind="cost", x="size of a copy", x_log=True,
               x_is_bytes=True),
    ),
)  # fmt: skip
