"""`torpor rm`: forget an ended job, or delete an image, here or in a store."""

from __future__ import annotations

import click

from torpor import api
from torpor.cli import output
from torpor.errors import NotFound, UsageError


@click.command("rm")
@click.argument("names", metavar="JOB|IMAGE…", nargs=-1, required=True)
@click.option("--job", "kind", flag_value="job", help="Take the names for jobs.")
@click.option("--image", "kind", flag_value="image", help="Take the names for images.")
@output.json_flag
def command(names: tuple[str, ...], kind: str | None) -> None:
    """Remove jobs that have ended, and images. A name that is both needs --job or --image."""
    targets = [_find(name, kind) for name in names]
    for target in targets:
        target.remove()
    removed = [{"name": target.name, "kind": "job" if isinstance(target, api.Job) else "image"} for target in targets]
    output.result({"removed": removed}, "\n".join(f"removed {one['kind']} {one['name']}" for one in removed))


def _find(name: str, kind: str | None) -> api.Job | api.Image | api.ImageInStore:
    found: list[api.Job | api.Image | api.ImageInStore] = []
    if kind != "image" and "/" not in name and "@" not in name:
        found += [job for job in api.jobs() if job.name == name]
    if kind != "job":
        try:
            found.append(api.find(name))
        except NotFound:
            if "@" in name:
                raise
    if not found:
        raise NotFound(f"no {kind or 'job or image'} named {name!r}", hint="`torpor ps` and `torpor images` list them")
    if len(found) > 1:
        raise UsageError(f"{name!r} is both a job and an image", hint="say which with --job or --image")
    return found[0]
