"""`torpor suspend`: stop a job's GPU work and take its memory off the job, without ending it."""

from __future__ import annotations

import click

from torpor import api
from torpor.cli import output, progress
from torpor.cli.options import job_name, timeout


@click.command("suspend")
@job_name
@click.option(
    "--tier",
    type=click.Choice(["hbm", "dram"]),
    default="dram",
    show_default=True,
    help="dram frees the GPU's memory; hbm keeps the bytes on the GPU.",
)
@timeout
@output.json_flag
def command(job: str, tier: str, timeout: float) -> None:
    """Put a job to sleep in place."""
    target = api.job(job)
    with progress.shown(f"suspend {job}") as report:
        outcome = target.suspend(tier=tier, deadline=timeout, progress=report)
    figures = progress.figures(report.elapsed, outcome.bytes, 0, outcome.phases)
    output.result(
        {"job": job, "tier": tier, **figures.data},
        f"{job} suspended ({tier})\n  {figures.text}\n  wake it with `torpor resume {job}`",
    )
