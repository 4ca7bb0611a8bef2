"""`torpor checkpoint`: save a job into an image."""

from __future__ import annotations

import click

from torpor import api
from torpor.cli import output, progress
from torpor.cli.options import job_name, timeout


@click.command("checkpoint")
@job_name
@click.option("--leave-running", is_flag=True, help="Let the job go on afterwards.")
@click.option("--to", metavar="PATH", help="Folder that the image becomes.")
@click.option(
    "--tier",
    type=click.Choice(["disk", "dram"]),
    default="disk",
    show_default=True,
    help="dram is the memory of this host.",
)
@timeout
@output.json_flag
def command(job: str, leave_running: bool, to: str | None, tier: str, timeout: float) -> None:
    """Save a job into an image; the job ends unless --leave-running."""
    target = api.job(job)
    with progress.shown(f"checkpoint {job}") as report:
        image = target.checkpoint(leave_running=leave_running, to=to, tier=tier, deadline=timeout, progress=report)
    manifest = image.manifest
    figures = progress.figures(report.elapsed, manifest.gpu_bytes, manifest.cpu_bytes, manifest.phases)
    handle = image.name if image.is_listed else image.path
    ending = "the job runs on" if leave_running else f"wake it with `torpor restore {handle}`"
    output.result(
        {"job": job, "image": image.name, "path": str(image.path), "leave_running": leave_running, **figures.data},
        f"{job} → {image.path}\n  {figures.text}\n  {ending}",
    )
