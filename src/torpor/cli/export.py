"""`torpor export`: an image as one file."""

from __future__ import annotations

import click

from torpor import api
from torpor.cli import output, progress
from torpor.cli.options import image_name


@click.command("export")
@image_name
@click.argument("file")
@output.json_flag
def command(image: str, file: str) -> None:
    """Write an image, here or in a store (IMAGE@STORE), into one new file."""
    from torpor.store_handle import export

    source = api.find(image)
    with progress.shown(f"export {source.name}") as report:
        result = export(source, file, report)
    took = f"{result.seconds:.2f} s, {output.size(result.bytes)}, which take {output.size(result.stored)}"
    output.result({"file": file, **result.describe()}, f"{source.name} → {file}\n  {took}")
