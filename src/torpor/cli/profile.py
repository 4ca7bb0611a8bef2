"""`torpor profile`: what a program asks of the driver, and what the layer costs it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click

from torpor import api, written
from torpor.cli import output
from torpor.cli.options import Number
from torpor.errors import NotFound, UsageError
from torpor.process import terminal
from torpor.process.namespace import CannotExec
from torpor.records import Vm

if TYPE_CHECKING:
    from torpor.profiling import Profile, Sampler


class _WithCommand(click.Command):
    """Keeps what stands behind `--` apart: it is a program, and what stands before it may name a job."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            ctx.meta["argv"] = args[at + 1 :]
            args = args[:at]
        return super().parse_args(ctx, args)


@click.command("profile", cls=_WithCommand, options_metavar="[OPTIONS] (JOB | -- CMD…)")
@click.argument("job", required=False, metavar="")
@click.option("--seconds", type=Number(min=0, min_open=True), metavar="S",
              help="How long to look at JOB; otherwise until Ctrl-C or its end.")
@click.option("--times", is_flag=True, help="Also time the calls that do something; costs more than counting.")
@click.option("--kernels", is_flag=True,
              help="Also time each kernel, copy and fill of a command, by CUPTI. The job cannot be checkpointed then.")
@click.option("--interval", type=Number(min=0.02), default=0.25, show_default=True, metavar="S",
              help="Between two looks: the grain of the timeline.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
              help="Write profile.json, profile.txt and, with matplotlib, timeline.png.")
@click.option("--plot", type=click.Path(path_type=Path, dir_okay=False), help="Write the timeline as PNG (matplotlib).")
@click.option("--name", help="The job's name, for a command; one is made up otherwise.")
@click.option("--gpu", metavar="I,…|sim", help="GPUs to use, for a command, or sim for the software GPU.")
@click.option("--vm", type=click.Choice(get_args(Vm)),
              help="As in `torpor run`, for a command.")
@output.json_flag
@click.pass_context
def command(
    ctx: click.Context,
    job: str | None,
    seconds: float | None,
    times: bool,
    kernels: bool,
    interval: float,
    out: Path | None,
    plot: Path | None,
    name: str | None,
    gpu: str | None,
    vm: Vm | None,
) -> int:
    """Count a program's driver calls, for a whole run of a command or for a while in a running job.

    Prints calls by name and family, per second and per second of GPU time, bytes moved, launches, questions, and what
    the layer costs. A command's exit status is passed on; its report goes to standard error.
    """
    from torpor.keeper.control import Level
    from torpor.profiling import Sampler

    argv: list[str] | None = ctx.meta.get("argv")
    if (job is None) == (argv is None):
        raise UsageError("there is nothing to profile" if job is None else "both a job and a command", hint=_HINT)
    if argv == []:
        raise UsageError("there is no program behind --", hint=_HINT)
    if argv is None and (name is not None or gpu is not None or vm is not None):
        raise UsageError("--name, --gpu and --vm are for a command", hint=_HINT)
    if argv is None and kernels:
        raise UsageError(
            "--kernels is for a command: CUPTI has to be there when the driver starts",
            hint="`torpor profile --kernels -- CMD…`",
        )
    if argv is not None and seconds is not None:
        raise UsageError("--seconds is for a running job", hint=_HINT)
    if plot is not None:
        _need_matplotlib()
        if not plot.absolute().parent.is_dir():
            raise UsageError(f"{plot.parent} is no folder", hint="make it first")
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)  # before a long run, not after it
    level = Level.TIMES if times else Level.COUNTS
    sampler = Sampler(level=level, interval=interval, own=argv is not None, kernels=kernels)
    if argv is None:
        assert job is not None
        return _while_it_runs(api.job(job), sampler, seconds, out, plot)
    start = partial(api.run, argv, name=name, gpu=gpu, vm=vm)
    return _whole_run(start, sampler, gpu, out, plot)


UNWRITTEN = 1
"""Exit status of a look at a job whose report is printed, but could not be written."""

_HINT = "`torpor profile JOB`, or `torpor profile -- CMD…`"


def _while_it_runs(job: api.Job, sampler: Sampler, seconds: float | None, out: Path | None, plot: Path | None) -> int:
    from torpor.profiling import summarise

    try:
        sampler.begin(job)  # the job may count by the time that it is interrupted
        end = None if seconds is None else time.monotonic() + seconds
        while sampler.lives:
            left = 0.2 if end is None else min(0.2, end - time.monotonic())
            if left <= 0:
                break
            with suppress(NotFound):  # somebody has removed it
                job.wait(left)
    except KeyboardInterrupt:
        pass  # the question is answered so far; the job runs on
    profile = summarise(sampler.end(), job)
    text, whole = _write(profile, out, plot)
    output.result(profile.to_dict(), text)
    return 0 if whole else UNWRITTEN


def _whole_run(
    start: Callable[..., api.Job], sampler: Sampler, gpu: str | None, out: Path | None, plot: Path | None
) -> int:
    from torpor.cli import foreground
    from torpor.profiling import summarise

    place = None if output.as_json else terminal.ours()
    try:
        job = start(detach=False, env=sampler.environment(), terminal=place)
    except CannotExec as error:
        output.failure(error)
        return error.exit_code

    def begin() -> None:
        if gpu is None and job.record.backend == "sim" and not os.environ.get("TORPOR_GPU"):
            output.note("no NVIDIA GPU here, the job gets the software GPU")
        sampler.begin(job)

    def tell() -> None:
        profile = summarise(sampler.end(), job)
        text, _ = _write(profile, out, plot)  # the command's exit status is more than a file of ours
        if output.as_json:
            output.result(profile.to_dict(), "")
        else:
            output.aside(f"\n{text}")

    return foreground.stay(job, at_begin=begin, at_signal=sampler.look_now, at_end=tell)


def _write(profile: Profile, out: Path | None, plot: Path | None) -> tuple[str, bool]:
    """The report as text, and whether its files are there: what cannot be written is told, and takes nothing else."""
    from torpor.errors import MissingPart
    from torpor.profiling import plot as picture
    from torpor.profiling import text

    told = text.report(profile, output.table, output.size)
    files: list[tuple[Path, Callable[[Path], object]]] = []
    if plot is not None:
        files.append((plot, partial(picture.draw, profile)))
    if out is not None:
        files += [
            (out / "profile.json", lambda file: file.write_text(json.dumps(profile.to_dict(), indent=1) + "\n")),
            (out / "profile.txt", lambda file: file.write_text(told + "\n")),
            (out / "timeline.png", partial(picture.draw, profile)),
        ]
    whole = True
    for file, write in files:
        try:
            written.whole(file, write)
        except MissingPart as error:
            output.note(f"no {file.name}: {error.message}")
        except OSError as error:
            output.note(f"{file} could not be written: {error.strerror or error}")
            whole = False
    return told, whole


def _need_matplotlib() -> None:
    """Before a long run, not after it."""
    from importlib.util import find_spec

    from torpor.errors import MissingPart

    if find_spec("matplotlib") is None:
        raise MissingPart("matplotlib is not installed", hint="pip install matplotlib, or leave out --plot")
