"""`torpor attach`: stay with a job that runs already."""

from __future__ import annotations

import click

from torpor import api
from torpor.cli import output
from torpor.cli.options import job_name
from torpor.errors import WrongState
from torpor.records import LIVE_STATES, JobState


@click.command("attach")
@job_name
@output.json_flag
def command(job: str) -> int:
    """Stay with a job as `run` does: its output from now on, our input and signals, its exit code."""
    from torpor.cli import foreground

    target = api.job(job)
    try:
        target.is_on_terminal()
    except WrongState as error:
        state = target.state
        if state in LIVE_STATES:
            raise
        asleep = state is JobState.ASLEEP
        hint = "`torpor restore` its image first" if asleep else f"`torpor logs {job}` prints its output"
        raise WrongState(f"{job} is {state}, there is nothing to attach to", hint=hint) from error
    status = foreground.stay(target)
    if output.as_json:
        output.result(target.to_dict(), "")
    return status
