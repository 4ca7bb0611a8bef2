"""`torpor rm`: forget an ended job, or delete an image."""

from __future__ import annotations

from typing import Annotated

import typer

from torpor import api
from torpor.cli import output
from torpor.errors import NotFound, UsageError


def command(
    names: Annotated[list[str], typer.Argument(metavar="JOB|IMAGE…", help="Jobs that have ended, or images.")],
    image: Annotated[bool, typer.Option("--image", help="Take the names for images.")] = False,
    job: Annotated[bool, typer.Option("--job", help="Take the names for jobs.")] = False,
    json: output.JsonFlag = False,
) -> None:
    """Remove ended jobs and images. A name that is both needs --job or --image."""
    del json
    targets = [_find(name, want_job=job or not image, want_image=image or not job) for name in names]
    for target in targets:
        target.remove()
    removed = [{"name": target.name, "kind": type(target).__name__.lower()} for target in targets]
    output.result({"removed": removed}, "\n".join(f"removed {one['kind']} {one['name']}" for one in removed))


def _find(name: str, *, want_job: bool, want_image: bool) -> api.Job | api.Image:
    found: list[api.Job | api.Image] = []
    if want_job and "/" not in name:
        found += [job for job in api.jobs() if job.name == name]
    if want_image:
        try:
            found.append(api.image(name))
        except NotFound:
            pass
    if not found:
        raise NotFound(f"no job or image named {name!r}", hint="`torpor ps` and `torpor images` list them")
    if len(found) > 1:
        raise UsageError(f"{name!r} is both a job and an image", hint="say which with --job or --image")
    return found[0]
