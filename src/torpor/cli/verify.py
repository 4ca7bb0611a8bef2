"""`torpor verify`: is it all there, and as it was written?"""

from __future__ import annotations

from typing import Any

import click
import msgspec

from torpor import api
from torpor.cli import output, progress
from torpor.cli.options import limit
from torpor.cli.options import store as store_option
from torpor.errors import ImageDamaged, UsageError


@click.command("verify")
@click.argument("images", metavar="[IMAGE…]", nargs=-1)
@store_option
@click.option("--repair-index", is_flag=True, help="Make the store's index anew from its packs.")
@limit
@output.json_flag
def command(images: tuple[str, ...], store: str | None, repair_index: bool) -> int:
    """Read and check images, or without an IMAGE everything in a store. Exits with 7 when something is damaged.

    With --repair-index, when an image is: the index is then made anew all the same.
    """
    if images:
        if store is not None or repair_index:
            raise UsageError("name images, or a store with --store")
        _images(images)
        return 0
    with api.open_store(store) as opened, progress.shown(f"verify {opened.url}") as report:
        findings = opened.repair_index(report) if repair_index else opened.verify(report)
    data: dict[str, Any] = msgspec.to_builtins(findings)
    if not output.as_json:
        # Without --repair-index the first one is told at the end, as the error.
        for problem in findings.problems[0 if repair_index else 1 :]:
            output.note(problem["message"])
    if not repair_index:
        findings.raise_first()
    text = f"{findings.images} images, {findings.packs} packs, {findings.chunks} chunks, {output.size(findings.bytes)}"
    if findings.unindexed:
        text += f"; {findings.unindexed} packs are in no index, `torpor prune` removes them"
    if repair_index:
        text = f"the index is made anew: {text}\n  damaged images: {', '.join(findings.damaged) or 'none'}"
    output.result({"store": opened.url, **data}, text)
    return ImageDamaged.code if findings.damaged else 0


def _images(names: tuple[str, ...]) -> None:
    found = [api.find(name) for name in names]
    for image in found:
        with progress.shown(f"verify {image.name}") as report:
            if isinstance(image, api.Image):
                image.verify()
            else:
                image.verify(report)
    output.result(
        {"verified": [image.summary() for image in found]}, "\n".join(f"{image.name} is whole" for image in found)
    )
