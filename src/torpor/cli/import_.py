"""`torpor import`: what `torpor export` wrote, into a store or among the images."""

from __future__ import annotations

import click

from torpor import api
from torpor.cli import output, progress


@click.command("import")
@click.argument("file")
@click.argument("store", required=False)
@click.option("--name", help="What the image is called.  [default: as when it was exported]")
@output.json_flag
def command(file: str, store: str | None, name: str | None) -> None:
    """Take an image from a file into a store (@ for TORPOR_STORE), or without one among your images."""
    from torpor.cli.copy import told
    from torpor.store_folders import image_folder
    from torpor.store_handle import only_image

    source = only_image(file)
    with progress.shown(f"import {source.name}") as report:
        if store is None:
            made = source.get(image_folder(name or source.name, "disk"), progress=report)
            output.result({"image": made.name, "path": str(made.path)}, f"{file} → {made.path}")
            return
        with api.open_store(store) as target:
            result = target.put(source, name=name, progress=report)
    output.result(
        {"store": target.url, **result.describe()},
        f"{file} → {result.image.head.name}@{target.url}\n  {told(result)}",
    )
