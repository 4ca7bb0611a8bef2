"""`torpor logs`: what a job has printed."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from torpor import api
from torpor.cli import output
from torpor.cli.options import JobName


def command(
    job: JobName,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until the job ends.")] = False,
    json: output.JsonFlag = False,
) -> None:
    """Print what a job has written to its standard output and error."""
    chunks = api.job(job).logs(follow=follow)
    if json:
        text = b"".join(chunks).decode(errors="replace")
        output.result({"job": job, "log": text}, "")
        return
    for chunk in chunks:
        sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()
