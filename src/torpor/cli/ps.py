"""`torpor ps`: the jobs and their states."""

from __future__ import annotations

import time

import click

from torpor import api
from torpor.cli import output


@click.command("ps")
@output.json_flag
def command() -> None:
    """List the jobs."""
    api.recover()
    jobs = api.jobs()
    now = time.time()
    rows = [
        (
            job.name,
            job.describe_state(),
            job.record.backend,
            ",".join(job.record.gpus) or "-",
            output.age(now - job.record.created),
            " ".join(job.record.command)[:60],
        )
        for job in jobs
    ]
    output.result(
        [job.to_dict() for job in jobs],
        output.table(("name", "state", "driver", "gpu", "age", "command"), rows),
    )
