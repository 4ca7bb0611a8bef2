"""`torpor rm`: forget an ended job, delete an image, here or in a store, or take a tag from one."""

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
    """Remove jobs that have ended, and images. A name that is both needs --job or --image.

    TAG@STORE takes the tag alone from its image; the image goes by its name or id.
    """
    targets = [_find(name, kind) for name in names]
    removed = []
    for name, target in zip(names, targets, strict=True):
        tag = _tag(name, target)
        if tag is not None and isinstance(target, api.ImageInStore):
            target.untag(tag)
            removed.append({"name": tag, "kind": "tag", "image": target.name})
        else:
            target.remove()
            removed.append({"name": target.name, "kind": "job" if isinstance(target, api.Job) else "image"})
    output.result({"removed": removed}, "\n".join(_told(one) for one in removed))


def _told(one: dict[str, str]) -> str:
    stays = f"; its image {one['image']} stays" if "image" in one else ""
    return f"removed {one['kind']} {one['name']}{stays}"


def _tag(name: str, target: api.Job | api.Image | api.ImageInStore) -> str | None:
    """The tag by which an image of a store is named; None where it is named otherwise."""
    from torpor.store import location

    where = location.split(name)
    if where is None or not isinstance(target, api.ImageInStore) or where.image == target.name:
        return None
    return where.image if where.image in target.tags else None


def _find(name: str, kind: str | None) -> api.Job | api.Image | api.ImageInStore:
    found: list[api.Job | api.Image | api.ImageInStore] = []
    hints = []
    if kind != "image" and "/" not in name and "@" not in name:
        found += [job for job in api.jobs() if job.name == name]
    if kind != "job":
        try:
            found.append(api.find(name))
        except NotFound as error:
            if "@" in name or "/" in name:
                raise
            hints.append(error.hint)  # where the image may be otherwise: it may have become durable a moment ago
    if kind != "image":
        hints.append("`torpor ps` lists the jobs")
    if not found:
        raise NotFound(f"no {kind or 'job or image'} named {name!r}", hint="; ".join(filter(None, hints)))
    if len(found) > 1:
        raise UsageError(f"{name!r} is both a job and an image", hint="say which with --job or --image")
    return found[0]
