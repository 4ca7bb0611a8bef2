"""`torpor wait`: until a job ends."""

from __future__ import annotations

import click

from torpor import api
from torpor.cli import output
from torpor.cli.options import Number, job_name
from torpor.errors import AWAY, WrongState
from torpor.records import JobState


@click.command("wait")
@job_name
@click.option("--timeout", type=Number(min=0), metavar="S", help="Seconds to wait at most.")
@output.json_flag
def command(job: str, timeout: float | None) -> int:
    """Wait for a job to end and exit as it did (128 + n after signal n, 75 when it was put into an image)."""
    api.recover()
    target = api.job(job)
    if not target.wait(timeout):
        raise WrongState(f"{job} has not ended after {timeout:g} s", hint="the job runs on")
    state = target.state
    if state is JobState.LOST:
        raise WrongState(f"{job} is gone and nobody saw how it ended", hint=f"`torpor logs {job}` may tell")
    if output.as_json:
        output.result(target.to_dict(), "")
    if state is JobState.ASLEEP:
        from torpor.cli.foreground import say_where

        say_where(target)
        return AWAY
    return target.exit_code or 0
