"""`torpor copy`: an image into a store, out of one, or from one to another."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import click

from torpor import api
from torpor.cli import output, progress
from torpor.cli.options import image_name, limit
from torpor.errors import UsageError


@click.command("copy")
@image_name
@click.argument("destination", metavar="[STORE|PATH]", required=False)
@click.option("--name", help="What it is called there.  [default: the same]")
@click.option("--tier", type=click.Choice(["disk", "dram"]), help="Among which of your images it becomes one.")
@click.option(
    "--compress",
    type=click.Choice(["auto", "small", "none"]),
    default="auto",
    show_default=True,
    help="Into a store: where it makes the copy faster; as small as can be; not at all.",
)
@limit
@output.json_flag
def command(
    image: str,
    destination: str | None,
    name: str | None,
    tier: Literal["disk", "dram"] | None,
    compress: Literal["auto", "small", "none"],
) -> None:
    """Copy an image into a store (a folder, a URL, or @ for TORPOR_STORE), or one of a store (IMAGE@STORE) back.

    Into a store, only what it lacks is moved. Back, the image becomes the folder PATH, or one of your images.
    """
    from torpor.store import location, repository

    source = api.find(image)
    if destination is not None and location.is_store(destination):
        if tier is not None:
            raise UsageError("--tier goes with a copy out of a store")
        _into(source, destination, name, compress)
    elif isinstance(source, api.Image):
        if destination is None:
            raise UsageError("name the store to copy into", hint="`torpor init STORE` makes one")
        place = destination.removeprefix("@")
        raise repository.no_store(place)
    else:
        _out_of(source, destination, name, tier)


def _into(source: api.Image | api.ImageInStore, store: str, name: str | None, compress: Any) -> None:
    with api.open_store(store) as target, progress.shown(f"copy {source.name}") as report:
        result = target.put(source, name=name, compression=compress, progress=report)
    output.result(
        {"store": target.url, **result.describe()},
        f"{source.name} → {result.image.head.name}@{target.url}\n  {told(result)}",
    )


def told(result: Any) -> str:
    """What a put moved, for people."""
    return (
        f"{result.seconds:.2f} s, {output.size(result.bytes)}, of which {output.size(result.new)} are new to the store "
        f"and take {output.size(result.stored)}"
    )


def _out_of(source: api.ImageInStore, destination: str | None, name: str | None, tier: str | None) -> None:
    from torpor.store_folders import image_folder

    if destination is not None and (name is not None or tier is not None):
        raise UsageError("a path says where the image goes; --name and --tier do not go with it")
    path = Path(destination) if destination is not None else image_folder(name or source.name, tier or "disk")
    with progress.shown(f"copy {source.name}") as report:
        made = source.get(path, durable=tier != "dram", progress=report)
    facts = source.summary()
    figures = progress.figures(report.elapsed, facts["gpu_bytes"], facts["cpu_bytes"], report.phases)
    output.result(
        {"image": made.name, "path": str(made.path), **figures.data}, f"{source.name} → {made.path}\n  {figures.text}"
    )
