"""`torpor init`: make an empty store."""

from __future__ import annotations

import os

import click

from torpor import api
from torpor.cli import output
from torpor.cli.options import Whole


@click.command("init")
@click.argument("store", required=False)
@click.option("--chunk", type=Whole(min=1), metavar="KIB", help="Size of its chunks.  [default: 512]")
@click.option("--encrypt", is_flag=True, help="Let nobody read it who does not have its key.")
@click.option("--key-file", metavar="FILE", help="The key's file; made if it is not there.  [default: TORPOR_KEY_FILE]")
@click.option("--key-command", metavar="COMMAND", help="Prints the key.  [default: TORPOR_KEY_COMMAND]")
@output.json_flag
def command(store: str | None, chunk: int | None, encrypt: bool, key_file: str | None, key_command: str | None) -> None:
    """Make an empty store in a new or empty folder, or at a URL.

    Of an encrypted store, keep the key: without it, nothing in the store can be read.
    """
    size = chunk << 10 if chunk else None
    with api.create_store(store, chunk=size, encrypt=encrypt, key_file=key_file, key_command=key_command) as made:
        config = made.repository.config
        data = {"store": made.url, "id": config.id, "chunk": config.chunk, "format": config.format}
        told = f"{made.url} is a store, with chunks of {output.size(config.chunk)}"
        if encrypt and key_file is not None:
            told += f"\n  encrypted: `export TORPOR_KEY_FILE={os.path.abspath(key_file)}` opens it; keep a copy"
        elif encrypt:
            told += "\n  encrypted"
        output.result({**data, "encrypted": encrypt}, told)
