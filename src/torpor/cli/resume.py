"""`torpor resume`: let a suspended job go on."""

from __future__ import annotations

import click

from torpor import api
from torpor.cli import output, progress
from torpor.cli.options import job_name


@click.command("resume")
@job_name
@output.json_flag
def command(job: str) -> None:
    """Wake a suspended job."""
    target = api.job(job)
    with progress.shown(f"resume {job}") as report:
        outcome = target.resume(progress=report)
    figures = progress.figures(report.elapsed, outcome.bytes, 0, outcome.phases)
    output.result({"job": job, **figures.data}, f"{job} resumed\n  {figures.text}")
