"""`torpor suspend`: stop a job's GPU work and take its memory off the job, without ending it."""

from __future__ import annotations

from typing import Annotated

import typer

from torpor import api
from torpor.cli import output, progress
from torpor.cli.options import JobName, Timeout, tier


def command(
    job: JobName,
    where: Annotated[
        str, typer.Option("--tier", help="dram frees the GPU's memory; hbm keeps the bytes on the GPU.")
    ] = "dram",
    timeout: Timeout = 30.0,
    json: output.JsonFlag = False,
) -> None:
    """Put a job to sleep in place."""
    del json
    target = api.job(job)
    with progress.shown(f"suspend {job}") as report:
        outcome = target.suspend(tier=tier(where, ("hbm", "dram")), deadline=timeout, progress=report)
    figures = progress.figures(report.elapsed, outcome.bytes, 0, outcome.phases)
    output.result(
        {"job": job, "tier": where, **figures.data},
        f"{job} suspended ({where})\n  {figures.text}\n  wake it with `torpor resume {job}`",
    )
