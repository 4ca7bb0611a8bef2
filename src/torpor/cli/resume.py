"""`torpor resume`: let a suspended job go on."""

from __future__ import annotations

from torpor import api
from torpor.cli import output, progress
from torpor.cli.options import JobName


def command(job: JobName, json: output.JsonFlag = False) -> None:
    """Wake a suspended job."""
    del json
    target = api.job(job)
    with progress.shown(f"resume {job}") as report:
        outcome = target.resume(progress=report)
    figures = progress.figures(report.elapsed, outcome.bytes, 0, outcome.phases)
    output.result({"job": job, **figures.data}, f"{job} resumed\n  {figures.text}")
