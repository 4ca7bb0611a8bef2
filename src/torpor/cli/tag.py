"""`torpor tag`: a further name for an image of a store."""

from __future__ import annotations

import click

from torpor import api
from torpor.cli import output
from torpor.errors import UsageError


@click.command("tag")
@click.argument("image")
@click.argument("tag")
@click.option("--delete", is_flag=True, help="Take the tag away from the image.")
@output.json_flag
def command(image: str, tag: str, delete: bool) -> None:
    """Give an image of a store (IMAGE@STORE) a further name. A tag that another image has moves to this one."""
    source = api.find(image)
    if isinstance(source, api.Image):
        raise UsageError(f"{image} is in no store; only images of a store have tags", hint="`torpor copy` it into one")
    if delete:
        if tag not in source.tags:
            raise UsageError(f"{source.name} has no tag {tag}")
        source.store.repository.untag(tag)
    else:
        source.tag(tag)
    output.result(
        {"image": source.name, "id": source.id, "tag": tag, "deleted": delete},
        f"{tag} is {'forgotten' if delete else source.name}",
    )
