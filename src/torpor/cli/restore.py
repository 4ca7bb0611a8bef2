"""`torpor restore`: wake a job from an image."""

from __future__ import annotations

from typing import Annotated

import typer

from torpor import api
from torpor.cli import output, progress
from torpor.cli.options import ImageName, pairs


def command(
    image: ImageName,
    name: Annotated[str | None, typer.Option("--name", help="Name of the woken job.")] = None,
    gpu_map: Annotated[
        list[str] | None, typer.Option("--gpu-map", metavar="OLD=NEW", help="Put GPU OLD's part onto GPU NEW.")
    ] = None,
    detach: Annotated[bool, typer.Option("--detach/--attach", help="Return at once, or stay with the job.")] = True,
    json: output.JsonFlag = False,
) -> None:
    """Wake a job from an image; the image stays as it is."""
    source = api.image(image)
    with progress.shown(f"restore {source.name}") as report:
        job = api.restore(
            source, name=name, gpu_map=pairs(gpu_map or [], "--gpu-map", "OLD=NEW"), progress=report
        )
    manifest = source.manifest
    figures = progress.figures(report.elapsed, manifest.gpu_bytes, manifest.cpu_bytes, report.phases)
    data = {"job": job.name, "image": source.name, "path": str(source.path), **figures.data}
    if detach:
        output.result(data, f"{source.name} → {job.name}\n  {figures.text}")
        return
    from torpor.cli import foreground

    if json:
        output.result(data, "")
    raise typer.Exit(foreground.stay(job))
