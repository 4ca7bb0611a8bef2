"""`torpor prune`: give back the room of what no image of a store uses."""

from __future__ import annotations

import click

from torpor import api
from torpor.cli import output
from torpor.cli.options import store as store_option


@click.command("prune")
@store_option
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@click.option("--break-lock", metavar="LOCK", help="First remove this lock, whose holder is gone.")
@output.json_flag
def command(store: str | None, dry_run: bool, break_lock: str | None) -> None:
    """Remove what no image of a store uses, and what writes that were cut short have left."""
    with api.open_store(store) as opened:
        if break_lock is not None:
            opened.break_lock(break_lock)
        result = opened.prune(dry_run=dry_run)
    verb = "would free" if dry_run else "freed"
    output.result(
        {"store": opened.url, "dry_run": dry_run, **result._asdict()},
        f"{result.images} images use {result.chunks} chunks, {result.unused_chunks} are unused\n"
        f"  {verb} {output.size(result.freed)}: {result.removed_packs} of {result.packs} packs removed, "
        f"{result.rewritten_packs} written anew",
    )
