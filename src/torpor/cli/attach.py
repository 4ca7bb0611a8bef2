"""`torpor attach`: stay with a job that runs already."""

from __future__ import annotations

import click

from torpor import api
from torpor.cli import output
from torpor.cli.options import job_name


@click.command("attach")
@job_name
@output.json_flag
def command(job: str) -> int:
    """Stay with a job as `run` does: its output from now on, our input and signals, its exit code."""
    from torpor.cli import foreground

    target = api.job(job)
    status = foreground.stay(target)
    if output.as_json:
        output.result(target.to_dict(), "")
    return status
