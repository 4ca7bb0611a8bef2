"""`torpor checkpoint`: save a job into an image."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from torpor import api
from torpor.cli import output, progress
from torpor.cli.options import JobName, Timeout, tier


def command(
    job: JobName,
    leave_running: Annotated[bool, typer.Option("--leave-running", help="Let the job go on afterwards.")] = False,
    to: Annotated[Path | None, typer.Option("--to", metavar="PATH", help="Folder to write the image to.")] = None,
    where: Annotated[str, typer.Option("--tier", help="disk, or dram (memory of this host).")] = "disk",
    timeout: Timeout = 30.0,
    json: output.JsonFlag = False,
) -> None:
    """Save a job into an image; the job ends unless --leave-running."""
    del json
    target = api.job(job)
    with progress.shown(f"checkpoint {job}") as report:
        image = target.checkpoint(
            leave_running=leave_running,
            to=to,
            tier=tier(where, ("disk", "dram")),
            deadline=timeout,
            progress=report,
        )
    manifest = image.manifest
    figures = progress.figures(report.elapsed, manifest.gpu_bytes, manifest.cpu_bytes, manifest.phases)
    ending = "the job runs on" if leave_running else f"wake it with `torpor restore {image.name}`"
    output.result(
        {"job": job, "image": image.name, "path": str(image.path), "leave_running": leave_running, **figures.data},
        f"{job} → {image.path}\n  {figures.text}\n  {ending}",
    )
