"""`torpor bench`: what the layer costs and saves on this machine; `compare` and `report` work on what it found."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click
import msgspec

from torpor.cli import output
from torpor.cli.options import Number, Whole
from torpor.errors import UsageError
from torpor.records import DEFAULT_VM, Vm

if TYPE_CHECKING:
    from torpor.bench.comparison import Row
    from torpor.bench.results import Results

FAILED = 1
"""Exit status of a run in which a part failed or whose report cannot be written, and of a comparison in which Torpor
got worse."""
BROKEN_OFF = 130
"""Exit status after Ctrl-C or SIGTERM; what was measured by then is kept."""


class Verbs(click.Group):
    """`compare` and `report`; anything else is a run."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, args if args and args[0] in ("compare", "report") else ["run", *args])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, found, rest = super().resolve_command(ctx, args)
        return ("[compare | report]" if name == "run" else name), found, rest


@click.group("bench", cls=Verbs, help="Measure what Torpor costs and saves on this machine, or compare two such runs.")
def command() -> None:
    pass


_MOST_GIB = 1 << 20
"""More than any GPU has; beyond, bytes are no whole numbers any more."""


def _gib(_context: click.Context, _parameter: click.Parameter, value: str | None) -> tuple[float, ...] | None:
    if value is None:
        return None
    try:
        sizes = tuple(float(part) for part in value.split(","))
    except ValueError:
        sizes = ()
    if not sizes or not all(0 <= size <= _MOST_GIB for size in sizes):
        raise click.BadParameter(f"{value!r} is no list of sizes such as 0,4,16")
    return sizes


def _names(_context: click.Context, _parameter: click.Parameter, value: str | None) -> tuple[str, ...]:
    from torpor.bench import models

    names = tuple(name.strip() for name in value.split(",")) if value is not None else ()
    tables = (models.GPT, models.LLAMA, models.TOY_GPT, models.TOY_LLAMA)
    known = list(dict.fromkeys(name for table in tables for name in table))
    for name in names:
        if name not in known:
            raise click.BadParameter(f"there is no model {name!r}; there are {', '.join(known)}")
    return names


@command.command("run")
@click.argument("names", metavar="[PART…]", nargs=-1)
@click.option("--quick", is_flag=True, help="Few turns: enough to see that everything runs.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Where the report goes.  [default: torpor-bench-<date> here]",
)
@click.option(
    "--vm",
    type=click.Choice(get_args(Vm)),
    default=DEFAULT_VM,
    show_default=True,
    help="As in `torpor run`.",
)
@click.option("--groups", type=Whole(min=1), metavar="N", help="Groups of fresh copies of a program.")
@click.option("--rounds", type=Whole(min=1), metavar="N", help="Turns that each group takes.")
@click.option("--batch", type=Number(min=0.001), metavar="S", help="Seconds of a turn; parts may take longer.")
@click.option("--repeats", type=Whole(min=1), metavar="N", help="Checkpoints and starts of each kind.")
@click.option(
    "--driver-repeats",
    type=Whole(min=0),
    metavar="N",
    help="The same in the driver's own way, which is slow; 0 leaves it out.",
)
@click.option("--gib", callback=_gib, metavar="G,…", help="GPU memory for jobs to hold, in GiB, where parts vary it.")
@click.option(
    "--models",
    callback=_names,
    metavar="M,…",
    help="Models to train and to serve, where a part has these: 30m to 1b, and 0.5b to 8b.",
)
@click.option("--requests", type=Whole(min=1), metavar="N", help="Requests to serve in one turn.")
@click.option("--list", "listing", is_flag=True, help="Name the parts and what they need, and end.")
@output.json_flag
def run(names: tuple[str, ...], out: Path | None, listing: bool, **given: Any) -> int:
    """Measure, or `compare` and `report` what was measured (`torpor bench compare --help`).

    Without a PART every part runs, with native copies, and the driver's own way where there is one, in the same run.
    results.json, report.md, index.html and plots go to --out. Exits with 1 when a part failed; the others are measured
    all the same. Ctrl-C keeps what has been measured.
    """
    from torpor.bench import parts, report, runner
    from torpor.bench.report import plots

    if listing:
        _list()
        return 0
    for name in names:
        parts.load(name)  # a wrong one is told before anything runs
    folder = out or runner.default_folder()
    keep, settings = runner.save_into(folder), _settings(given)
    found = runner.run(names, settings, ["torpor", *_told(sys.argv[1:])], keep)
    try:
        keep(found)
        written = report.write(found, folder)
    except OSError as error:  # hours of measuring are worth a look all the same
        written = []
        output.note(f"the report could not be written into {folder}: {error.strerror or error}")
    if not plots.available():
        output.note("no plots: matplotlib is not installed (pip install matplotlib; then `torpor bench report`)")
    output.result(msgspec.to_builtins(found), _summary(found, written))
    states = {part.status for part in found.parts}
    return BROKEN_OFF if "interrupted" in states else FAILED if "failed" in states or not written else 0


def _told(words: list[str]) -> list[str]:
    """The command line without where the report goes, which says nothing of the figures."""
    kept = [word for word in words if not word.startswith("--out=")]
    return [word for before, word in zip(["", *kept], kept, strict=False) if "--out" not in (before, word)]


def _settings(given: dict[str, Any]) -> Any:
    from torpor import api
    from torpor.bench.settings import QUICK, Settings

    quick = given.pop("quick")
    chosen = {name: value for name, value in given.items() if value is not None}
    return Settings(
        backend=api.default_backend(), quick=quick, say=output.note, **{**(QUICK if quick else {}), **chosen}
    )


def _list() -> None:
    from torpor.bench import parts

    known = [parts.load(name) for name in parts.REGISTRY]
    output.result(
        [{"name": part.name, "title": part.title, "needs": part.needs} for part in known],
        output.table(("part", "needs", "what"), [(p.name, ", ".join(p.needs) or "-", p.title) for p in known]),
    )


def _summary(found: Results, written: list[Path]) -> str:
    from torpor.bench.report import tables

    lines = []
    for part in found.parts:
        table = tables.of_part(part)
        lines.append(f"{part.title} ({part.seconds:.0f} s)")
        if tables.status(part):
            lines.append(f"  {tables.status(part)}")
        if table.rows:
            lines += [f"  {line}" for line in output.table(table.columns, table.rows).splitlines()]
        lines.append("")
    lines += [line for line in (tables.SOFTWARE_GPU,) if found.software_gpu]
    lines += [line for line in (tables.QUICK,) if found.quick]
    if written:
        names = ", ".join(path.name for path in written[:2])
        lines.append(f"written: {names} and {len(written) - 2} plots in {written[0].parent}")
    return "\n".join(lines)


_RESULTS = click.Path(path_type=Path)


@command.command("report")
@click.argument("files", metavar="RUN…", nargs=-1, required=True, type=_RESULTS)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    required=True,
    help="Where the report goes.",
)
@output.json_flag
def report_verb(files: tuple[Path, ...], out: Path) -> None:
    """Draw a report again, or one report of several runs on the same machine.

    A run is named by its results.json, or by the folder that holds it. What was measured again counts as it was in the
    last of them.
    """
    from torpor.bench import report, results
    from torpor.bench.report import plots

    found = results.merged([results.load(file) for file in files])
    written = report.write(found, out)
    results.save(found, out / "results.json")
    if not plots.available():
        output.note("no plots: matplotlib is not installed (pip install matplotlib)")
    output.result({"written": [str(path) for path in written]}, "\n".join(map(str, written)))


@command.command("compare")
@click.argument("first", metavar="A", type=_RESULTS)
@click.argument("second", metavar="B", type=_RESULTS)
@click.option("--all", "everything", is_flag=True, help="Show what stayed the same or had too few runs, too.")
@output.json_flag
def compare_verb(first: Path, second: Path, everything: bool) -> int:
    """What got better or worse from A to B by more than both spreads, and ratios to native also by more than the noise.

    A and B are two runs' results.json, or the folders that hold them. Exits with 0 when nothing of Torpor's got worse,
    with 1 when something did. Native sides and the driver's own way are shown, and change nothing in that.
    """
    from torpor.bench import comparison, results

    one, other = results.load(first), results.load(second)
    if one.software_gpu != other.software_gpu:
        raise UsageError("one run is of a GPU, the other of the software GPU: there is nothing to compare")
    rows = comparison.compare(one, other)
    differing = comparison.differences(one, other)
    data = {"differences": differing, "rows": msgspec.to_builtins(rows)}
    output.result(data, _compared(rows, differing, everything))
    return FAILED if any(row.is_worse_for_torpor for row in rows) else 0


def _compared(rows: list[Row], differing: list[str], everything: bool) -> str:
    from torpor.bench.report import tables

    shown = [row for row in rows if row.change in ("better", "worse") or (everything and row.first is not None)]
    cells = []
    for row in shown:
        form = tables.cost if row.what == "cost" else tables.spread
        of = f"{row.side} / native" if row.what == "cost" else row.side
        times = f"{row.times:.3f}" if row.times is not None else ""
        cells.append((row.part, row.name, of, row.unit, form(row.first), form(row.second), times, row.change))
    lines = [f"differs: {line}" for line in differing]
    if cells:
        lines.append(output.table(("part", "what", "side", "unit", "A", "B", "B / A", "change"), cells))
    for change, run in (("gone", "A"), ("new", "B")):
        alone: dict[str, list[str]] = {}
        for row in rows:
            if row.change == change:
                alone.setdefault(row.part, []).append(row.name)
        whole = {row.part for row in rows if row.change != change}
        told = [
            f"{part} ({', '.join(names) if everything or part in whole else len(names)})"
            for part, names in alone.items()
        ]
        if told:
            lines.append(f"only in {run}: {', '.join(told)}")
    counts = {change: sum(row.change == change for row in rows) for change in dict.fromkeys(row.change for row in rows)}
    lines.append(", ".join(f"{count} {change}" for change, count in sorted(counts.items())) or "nothing in common")
    if not everything and counts.keys() & {"same", "too few runs"}:
        lines[-1] += " (--all lists every one)"
    return "\n".join(lines)
