"""`torpor restore`: wake a job from an image."""

from __future__ import annotations

from typing import Any

import click

from torpor import api
from torpor.cli import interrupt, output, progress
from torpor.cli.options import image_name, limit, pairs
from torpor.records import JobState


@click.command("restore")
@image_name
@click.option("--name", help="Name of the woken job.  [default: the old one, where it is free]")
@click.option("--gpu-map", multiple=True, metavar="OLD=NEW", help="Put GPU OLD's part onto GPU NEW.")
@click.option("--detach/--attach", default=True, show_default=True, help="Return at once, or stay with the job.")
@limit
@output.json_flag
def command(image: str, name: str | None, gpu_map: tuple[str, ...], detach: bool) -> int:
    """Wake a job from an image; the image stays as it is.

    A job that came back and ended by itself with exit code 0 meanwhile has been woken, too.
    """
    mapping = pairs(gpu_map, "--gpu-map", "OLD=NEW")
    source = api.find(image)
    with progress.shown(f"restore {source.name}") as report:
        job = api.restore(source, name=name, gpu_map=mapping, progress=report)
    facts = source.summary()
    figures = progress.figures(report.elapsed, facts["gpu_bytes"], facts["cpu_bytes"], report.phases)
    place: dict[str, Any] = {key: facts[key] for key in ("path", "store", "id") if key in facts}
    ended = job.exit_code if job.state is JobState.EXITED else None
    data = {"job": job.name, "image": source.name, **place, **figures.data, "exit_code": ended}
    if detach or output.as_json or ended is not None:
        told = f"{source.name} → {job.name}"
        if ended is not None:
            told += f", which has ended since: exit code {ended}\n  `torpor logs {job.name}` has its output"
        output.result(data, f"{told}\n  {figures.text}")
    if detach:
        return 0
    if ended is not None:
        return ended
    from torpor.cli import foreground

    def attached() -> None:
        # What came too late for the restore is the job's, as what comes now is.
        if (number := interrupt.heed()) is not None:
            foreground.forward(job, number)

    return foreground.stay(job, at_attach=attached)
