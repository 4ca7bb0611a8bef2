"""`torpor wait`: until a job ends."""

from __future__ import annotations

from typing import Annotated

import typer

from torpor import api
from torpor.cli import output
from torpor.cli.foreground import AWAY
from torpor.cli.options import JobName
from torpor.errors import WrongState
from torpor.records import JobState


def command(
    job: JobName,
    timeout: Annotated[float | None, typer.Option("--timeout", min=0, help="Seconds to wait at most.")] = None,
    json: output.JsonFlag = False,
) -> None:
    """Wait for a job to end and exit as it did (128 + n after signal n, 75 when it was put into an image)."""
    target = api.job(job)
    if not target.wait(timeout):
        raise WrongState(f"{job} has not ended after {timeout:g} s", hint="the job runs on")
    state = target.state
    if json:
        output.result(target.to_dict(), "")
    if state is JobState.ASLEEP:
        raise typer.Exit(AWAY)
    if state is JobState.LOST:
        raise WrongState(f"{job} is gone and nobody saw how it ended", hint=f"`torpor logs {job}` may tell")
    code = target.exit_code
    raise typer.Exit(code if code is not None else 0)
