"""`torpor kill`: send a job a signal."""

from __future__ import annotations

import signal as signals
from typing import Annotated

import typer

from torpor import api
from torpor.cli import output
from torpor.cli.options import JobName
from torpor.errors import UsageError


def command(
    job: JobName,
    signal: Annotated[str, typer.Option("--signal", "-s", help="Name or number.")] = "TERM",
    json: output.JsonFlag = False,
) -> None:
    """Send a signal to a job's first process."""
    del json
    number = parse(signal)
    api.job(job).kill(number)
    output.result({"job": job, "signal": int(number)}, f"{job}: sent {signals.Signals(number).name}")


def parse(text: str) -> signals.Signals:
    """`9`, `KILL`, `sigkill` → SIGKILL; UsageError for anything that is no signal."""
    word = text.upper()
    try:
        return signals.Signals(int(word)) if word.isdigit() else signals.Signals["SIG" + word.removeprefix("SIG")]
    except (ValueError, KeyError):
        raise UsageError(f"{text!r} is not a signal", hint="use a name such as TERM, or a number") from None
