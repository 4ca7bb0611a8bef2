"""A profile's course as a picture."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from torpor.errors import MissingPart
from torpor.profiling.summary import Profile


def draw(profile: Profile, path: Path) -> None:
    """Write the course as PNG: calls a second by family, launches, bytes, GPU busy.

    MissingPart without matplotlib.
    """
    canvas_of(profile).savefig(path, format="png")


def canvas_of(profile: Profile) -> Any:
    """The picture, a matplotlib Figure. MissingPart without that."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingPart("matplotlib is not installed", hint="pip install matplotlib, or leave out --plot") from None
    steps = [
        (one, other) for one, other in pairwise(profile.timeline) if other["seconds"] - one["seconds"] > 1e-3
    ]
    edges = [steps[0][0]["seconds"], *(other["seconds"] for _, other in steps)] if steps else [0.0, 1.0]

    def course(value: Callable[[dict[str, Any]], float]) -> list[float]:
        rates = [(value(other) - value(one)) / (other["seconds"] - one["seconds"]) for one, other in steps]
        return rates or [0.0]

    figure = Figure(figsize=(9, 8), layout="constrained")
    FigureCanvasAgg(figure)
    rates, launches, moved, busy = figure.subplots(4, 1, sharex=True)
    floor = [0.0] * (len(edges) - 1)
    for family in [one["family"] for one in profile.calls["by_family"][:6]]:
        top = [below + more for below, more in zip(floor, course(partial(_of_family, family)), strict=True)]
        rates.stairs(top, edges, baseline=floor, fill=True, label=family)
        floor = top
    if profile.calls["by_family"]:
        rates.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize="small")
    rates.set_ylabel("calls / s")
    launched = course(lambda point: point["launches"])
    launches.stairs(launched, edges)
    launches.set_ylabel("kernel launches / s")
    gigabytes = [rate / 1e9 for rate in course(lambda point: point["bytes"])]
    moved.stairs(gigabytes, edges)
    moved.set_ylabel("moved / GB/s")
    count = max(len(profile.gpu["devices"]), 1) if profile.gpu else 1
    if profile.gpu:
        busy.stairs([100 * share / count for share in course(lambda point: point["busy"])], edges)
    else:
        busy.text(0.5, 0.5, "not known", ha="center", va="center", transform=busy.transAxes)
    busy.set(ylabel="GPU busy / %", xlabel="seconds", ylim=(0, 105), xlim=(0, None))
    for axes, drawn in ((rates, floor), (launches, launched), (moved, gigabytes)):
        axes.set_ylim(0, None if any(drawn) else 1)  # where nothing happened the axis would be one of hundredths
    machine = "software GPU: times say nothing of a real one" if profile.backend == "sim" else ""
    figure.suptitle(f"{profile.job}  {machine}".strip())
    return figure


def _of_family(family: str, point: dict[str, Any]) -> float:
    found: float = point["families"].get(family, 0)
    return found
