"""`torpor images`: the images of this user."""

from __future__ import annotations

from torpor import api
from torpor.cli import output


def command(json: output.JsonFlag = False) -> None:
    """List the images."""
    del json
    images = api.images()
    rows = [
        (
            image.name,
            image.manifest.job.name,
            image.manifest.tier,
            output.size(image.manifest.gpu_bytes),
            output.size(image.manifest.cpu_bytes),
            image.manifest.created,
        )
        for image in images
    ]
    output.result(
        [image.summary() for image in images],
        output.table(("name", "job", "tier", "gpu", "cpu", "created"), rows),
    )
