"""`torpor logs`: what a job has printed."""

from __future__ import annotations

import sys

import click

from torpor import api
from torpor.cli import output
from torpor.cli.options import job_name


@click.command("logs")
@job_name
@click.option("-f", "--follow", is_flag=True, help="Go on until the job ends.")
@output.json_flag
def command(job: str, follow: bool) -> None:
    """Print what a job has written to its standard output and error."""
    chunks = api.job(job).logs(follow=follow)
    if output.as_json:
        output.result({"job": job, "log": b"".join(chunks).decode(errors="replace")}, "")
        return
    for chunk in chunks:
        sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()
