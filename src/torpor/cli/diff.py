"""`torpor diff`: what changed from one image to another."""

from __future__ import annotations

from typing import Any

import click

from torpor import api
from torpor.cli import output

SHOWN = 10


@click.command("diff")
@click.argument("old")
@click.argument("new")
@output.json_flag
def command(old: str, new: str) -> None:
    """Compare two images, here or in a store (IMAGE@STORE): bytes, blocks, chunks."""
    from torpor.store_handle import diff

    data = diff(api.find(old), api.find(new))
    output.result(data, text(data))


def text(data: dict[str, Any]) -> str:
    """The differences for people."""
    rows = [
        (name, output.size(one["old"]), output.size(one["new"]), output.size(one["moved"]), _share(one))
        for name, one in data["bytes"].items()
    ]
    blocks, chunks = data["blocks"], data["chunks"]
    lines = [
        output.table(("bytes", "old", "new", "changed", "share"), rows),
        f"blocks: {blocks['same']} the same, {len(blocks['changed'])} changed, {len(blocks['come'])} came, "
        f"{len(blocks['gone'])} went",
    ]
    lines += [
        f"  {one['block']}: {output.size(one['changed'])} of {output.size(one['size'])}"
        for one in blocks["changed"][:SHOWN]
    ]
    if len(blocks["changed"]) > SHOWN:
        lines.append(f"  and {len(blocks['changed']) - SHOWN} more (--json)")
    lines.append(f"chunks: {chunks['shared']} in both, {chunks['old_only']} only in the old, {chunks['new_only']} new")
    return "\n".join(lines)


def _share(one: dict[str, int]) -> str:
    return f"{100 * one['moved'] / one['new']:.1f} %" if one["new"] else "-"
