"""`torpor images`: the images of this user."""

from __future__ import annotations

import click

from torpor import api
from torpor.cli import output


@click.command("images")
@output.json_flag
def command() -> None:
    """List the images."""
    images = [image.summary() for image in api.images()]
    rows = [
        (
            image["name"],
            image["job"],
            image["tier"],
            output.size(image["gpu_bytes"]),
            output.size(image["cpu_bytes"]),
            image["created"],
        )
        for image in images
    ]
    output.result(images, output.table(("name", "job", "tier", "gpu", "cpu", "created"), rows))
