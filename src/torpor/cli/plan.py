"""`torpor plan`: how often to checkpoint, and what failures cost with and without."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from torpor import written
from torpor.cli import output
from torpor.cli.options import Number, Whole
from torpor.errors import MissingPart, UsageError

if TYPE_CHECKING:
    from torpor.plan import Conditions, Way

_POSITIVE = Number(min=1e-6)
_AT_LEAST_0 = Number(min=0)

LEAST_CHANCE = 0.01
"""Of a restart to come to its end. With less there is no plan, and a simulation would take for ever."""

ASSUMPTIONS = (
    "failures are independent of the job and of each other (--shape 1: memoryless)",
    "a checkpoint stops the job for its whole cost; one that a failure interrupts is lost",
    "a restart takes as long each time, and may itself be interrupted",
    "an announced failure leaves time for one checkpoint",
)


@click.command("plan")
@click.option("--image", help="Take checkpoint cost and size from this image, here or in a store (IMAGE@STORE).")
@click.option("--checkpoint", type=_POSITIVE, metavar="S", help="Seconds that the job stands still for a checkpoint.")
@click.option("--restore", type=_AT_LEAST_0, metavar="S", help="Seconds from the verb until the job works on.")
@click.option("--detect", type=_AT_LEAST_0, default=60.0, show_default=True, metavar="S",
              help="Seconds until a failure is noticed and a GPU is there.")
@click.option("--size", type=_AT_LEAST_0, metavar="GB", help="Size of an image in 1e9 bytes.")
@click.option("--keep", type=Whole(min=1), default=1, show_default=True, help="Images that are kept.")
@click.option("--price", type=_AT_LEAST_0, default=0.0, show_default=True, metavar="P", help="Of a GB for a month.")
@click.option("--mtbf", type=_POSITIVE, metavar="H", help="Mean hours between failures or preemptions.")
@click.option("--rate", type=_POSITIVE, metavar="N", help="The same as failures a day.")
@click.option("--announced", type=Number(0, 1), default=0.0, show_default=True,
              help="Share of them that leave time for a checkpoint.")
@click.option("--shape", type=Number(0.2, 5), default=1.0, show_default=True,
              help="Of the Weibull distribution of the time between them (simulation only).")
@click.option("--app-checkpoint", type=_POSITIVE, metavar="S",
              help="Seconds that the job stands still for the application's own checkpoint.")
@click.option("--app-restore", type=_AT_LEAST_0, metavar="S",
              help="Seconds from the application's start until it works on from that.")
@click.option("--app-size", type=_AT_LEAST_0, metavar="GB", help="Size of that.  [default: as --size]")
@click.option("--length", type=_POSITIVE, metavar="H",
              help="Hours of work in the job, for what failures cost it without any checkpoint.")
@click.option("--plot", type=click.Path(path_type=Path, dir_okay=False), help="Write the curves as PNG (matplotlib).")
@output.json_flag
def command(**given: Any) -> None:
    """The best interval between checkpoints, and the work lost a day with and without them."""
    from torpor import plan

    if given["plot"] is not None and not given["plot"].absolute().parent.is_dir():
        raise UsageError(f"{given['plot'].parent} is no folder", hint="make it first")
    ways, conditions = _ways(given), _conditions(given)
    for way in ways:
        if plan.chance_of_restart(way.restart, conditions) < LEAST_CHANCE:
            raise UsageError(
                f"a restart ({way.name}) takes {way.restart / plan.SECOND:.3g} s, and the next failure comes after "
                f"{conditions.between_failures / plan.SECOND:.3g} s: hardly any would come to its end",
                hint="--mtbf is in hours, --rate in failures a day, and --restore and --detect in seconds",
            )
    found = []
    for way in ways:
        chosen = plan.best(way, conditions)
        found.append((chosen, plan.simulate(way, conditions, chosen.interval)))
    without = _without(given, conditions)
    if given["plot"] is not None:
        _plot(given["plot"], ways, conditions, without)
    output.result(
        {
            "ways": [plan.to_dict(chosen, simulated, conditions) for chosen, simulated in found],
            "without_lost_share": without,
            "assumptions": ASSUMPTIONS,
        },
        _text(found, conditions, without),
    )


def _ways(given: dict[str, Any]) -> list[Way]:
    from torpor import api
    from torpor.plan import SECOND, Way

    cost, size = given["checkpoint"], given["size"]
    if given["image"] is not None:
        image = api.find(given["image"]).show()
        cost = cost if cost is not None else sum(image["phases"].values())  # they overlap
        size = size if size is not None else (image["gpu_bytes"] + image["cpu_bytes"]) / 1e9
    if not cost:
        raise UsageError("what a checkpoint costs is not known", hint="give --checkpoint S, or --image NAME")
    if given["restore"] is None:
        raise UsageError("what a restore costs is not known", hint="give --restore S; `torpor restore` prints it")
    detect = given["detect"]
    ways = [Way("torpor", cost * SECOND, (given["restore"] + detect) * SECOND, _kept(given, size))]
    if (given["app_checkpoint"] is None) != (given["app_restore"] is None):
        raise UsageError("the application's own way needs both", hint="give --app-checkpoint S and --app-restore S")
    if given["app_checkpoint"] is not None:
        restart = (given["app_restore"] + detect) * SECOND
        its_size = given["app_size"] if given["app_size"] is not None else size
        ways.append(Way("application", given["app_checkpoint"] * SECOND, restart, _kept(given, its_size)))
    elif given["app_size"] is not None:
        raise UsageError("--app-size is of the application's own way", hint="give --app-checkpoint S, too")
    return ways


def _kept(given: dict[str, Any], size: float | None) -> float:
    """Bytes of all images that are kept."""
    keep: int = given["keep"]
    return (size or 0.0) * 1e9 * keep


def _conditions(given: dict[str, Any]) -> Conditions:
    from torpor.plan import DAY, Conditions

    if given["mtbf"] is None and given["rate"] is None:
        raise UsageError("how often failures come is not known", hint="give one of --mtbf H and --rate N")
    if given["mtbf"] is not None and given["rate"] is not None:
        raise UsageError("--mtbf and --rate say the same", hint="give one of them")
    between = given["mtbf"] if given["mtbf"] is not None else DAY / given["rate"]
    return Conditions(between, given["announced"], given["shape"], given["price"])


def _without(given: dict[str, Any], conditions: Conditions) -> float | None:
    """The share lost by a job that begins anew; a cold start is what the application's restore takes, if it is told."""
    from torpor.plan import SECOND, lost_without

    if given["length"] is None:
        return None
    start = given["app_restore"] if given["app_restore"] is not None else given["restore"]
    return lost_without((start + given["detect"]) * SECOND, conditions, given["length"])


def _span(hours: float) -> str:
    seconds = hours * 3600
    if seconds < 600:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if hours < 2 else f"{hours:.1f} h"


def _text(found: list[Any], conditions: Conditions, without: float | None) -> str:
    from torpor.plan import DAY, daly, young

    rows = [
        (
            chosen.way.name,
            _span(chosen.way.cost),
            _span(chosen.way.restart),
            _span(chosen.interval),
            _span(young(chosen.way, conditions)),
            _span(daly(chosen.way, conditions)),
            f"{chosen.lost_share:.3%}",
            _span(chosen.lost_hours_per_day),
            f"{simulated.lost_share:.3%} ±{simulated.error:.3%}",
            f"{chosen.storage_per_day:.2f}",
        )
        for chosen, simulated in found
    ]
    if without is not None:
        rows.append(("none", "-", "-", "-", "-", "-", f"{without:.3%}", _span(without * DAY), "-", "-"))
    columns = ("way", "checkpoint", "restart", "every", "young", "daly", "lost", "lost a day", "simulated", "storage")
    assumed = "\n".join(f"  {line}" for line in ASSUMPTIONS)
    title = f"Storage is a day's price. Assumed, with a failure every {_span(conditions.between_failures)}:"
    return f"{output.table(columns, rows)}\n\n{title}\n{assumed}"


def _plot(path: Path, ways: list[Way], conditions: Conditions, without: float | None) -> None:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.ticker import StrMethodFormatter
    except ImportError:
        raise MissingPart("matplotlib is not installed", hint="pip install matplotlib, or leave out --plot") from None
    from torpor.plan import best, curve

    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.add_subplot()
    for way in ways:
        points = [(interval * 60, share * 100) for interval, share in curve(way, conditions)]
        [line] = axes.plot(*zip(*points, strict=True), label=way.name)
        chosen = best(way, conditions)
        axes.plot([chosen.interval * 60], [chosen.lost_share * 100], "o", color=line.get_color())
    if without is not None:
        axes.axhline(without * 100, linestyle="--", color="grey", label="no checkpoints")
    axes.set(xscale="log", ylim=(0, None), xlabel="work between checkpoints / minutes", ylabel="time lost / %")
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.set_title(f"A failure every {_span(conditions.between_failures)}")
    axes.legend()
    FigureCanvasAgg(figure)
    written.whole(path, lambda file: figure.savefig(file, format="png"))
