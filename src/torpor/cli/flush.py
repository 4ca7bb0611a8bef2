"""`torpor flush`: wait until images in memory are durable."""

from __future__ import annotations

from typing import Any

import click

from torpor import api
from torpor.cli import output, progress
from torpor.cli.options import limit
from torpor.errors import TorporError


@click.command("flush")
@click.argument("images", metavar="[IMAGE…]", nargs=-1)
@limit
@output.json_flag
def command(images: tuple[str, ...]) -> None:
    """Wait until images in memory are where they are durable: these, or all that are to be.

    One that could not be written is tried again at once, and its store opened as this command would. All are waited
    for; exits with the code of what keeps the first from being written.
    """
    names = images or tuple(image.name for image in api.images() if image.course is not None)
    done: list[dict[str, Any]] = []
    failures: list[TorporError] = []
    for name in names:
        with progress.shown(f"flush {name}") as report:
            try:
                done.append({"image": name, "place": api.flush(name, progress=report).place})
            except TorporError as error:
                failures.append(error)
    for failure in failures[1:]:
        output.note(failure.message)
    if failures:
        raise failures[0]
    text = "\n".join(f"{one['image']} is durable: {one['place']}" for one in done)
    output.result({"flushed": done}, text or "no image is on its way")
