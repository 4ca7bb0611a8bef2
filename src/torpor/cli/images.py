"""`torpor images`: the images of this user."""

from __future__ import annotations

import click

from torpor import api
from torpor.cli import output
from torpor.errors import ImageDamaged


@click.command("images")
@click.option("--store", metavar="STORE", help="List what is in a store: its folder or URL, or @ for TORPOR_STORE.")
@output.json_flag
def command(store: str | None) -> None:
    """List the images."""
    if store is not None:
        _of_store(store)
        return
    api.recover()
    readable, unreadable = api.images_and_unreadable()
    images = [image.summary() for image in readable]
    rows = [
        (
            image["name"],
            image["job"],
            image["tier"],
            output.size(image["gpu_bytes"]),
            output.size(image["cpu_bytes"]),
            output.second(image["created"]),
            image["state"],
        )
        for image in images
    ]
    output.result(images, output.table(("name", "job", "tier", "gpu", "cpu", "created", "state"), rows))
    for damaged, error in unreadable:
        if isinstance(error, ImageDamaged):
            output.note(f"{damaged.path} cannot be read; `torpor rm {damaged.name}` removes it")
        else:
            output.note(f"{error.message}: {error.hint}")


def _of_store(store: str) -> None:
    with api.open_store(store) as opened:
        images = [image.summary() for image in opened.images()]
    rows = [
        (
            image["name"],
            image["id"][:12],
            image["job"],
            output.size(image["gpu_bytes"]),
            output.size(image["cpu_bytes"]),
            output.second(image["created"]),
            " ".join(image["tags"]) or "-",
        )
        for image in images
    ]
    output.result(images, output.table(("name", "id", "job", "gpu", "cpu", "created", "tags"), rows))
