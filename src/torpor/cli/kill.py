"""`torpor kill`: send a job a signal."""

from __future__ import annotations

import signal as signals

import click

from torpor import api
from torpor.cli import output
from torpor.cli.options import job_name
from torpor.errors import UsageError


@click.command("kill")
@job_name
@click.option("-s", "--signal", default="TERM", show_default=True, help="Name or number.")
@output.json_flag
def command(job: str, signal: str) -> None:
    """Send a signal to a job's first process."""
    number = parse(signal)
    api.job(job).kill(number)
    output.result({"job": job, "signal": int(number)}, f"{job}: sent {number.name}")


def parse(text: str) -> signals.Signals:
    """`9`, `KILL`, `sigkill` → SIGKILL; UsageError for anything that is no signal."""
    word = text.upper()
    try:
        return signals.Signals(int(word)) if word.isdigit() else signals.Signals["SIG" + word.removeprefix("SIG")]
    except (ValueError, KeyError):
        raise UsageError(f"{text!r} is not a signal", hint="use a name such as TERM, or a number") from None
