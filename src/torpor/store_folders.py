"""Folders that images pass through on their way into a store and out of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from torpor import paths, records
from torpor.errors import TorporError, UsageError
from torpor.image_handle import Image
from torpor.writeback import Target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from torpor.store.deposit import PutResult
    from torpor.store_handle import OnProgress, Store


Take = Callable[[Path, "Target | None"], Image]
"""Takes a checkpoint: makes an image in that folder which, with a target, is to go there from then on."""


def image_folder(name: str, tier: str) -> Path:
    """Where an image of that name goes among the user's. UsageError when there is one, in either tier."""
    records.check_name(name)
    for place in ("disk", "dram"):
        if (paths.tier_dir(place) / name).exists():
            raise UsageError(f"there is an image named {name}", hint="choose another with --name")
    if tier == "disk":
        paths.make_private(paths.home())
    return paths.make_private(paths.tier_dir(tier)) / name


def begin(take: Take, job: str, store: Store) -> Image:
    """Take a checkpoint of `job` into memory; the keeper brings it into the store from then on. NoSpace in memory."""
    name = free_name(job, store)
    return take(image_folder(name, "dram"), Target(name=name, store=store.url, env=store.opening()))


def checkpoint(take: Take, job: str, store: Store, *, progress: OnProgress | None = None) -> PutResult:
    """Take a checkpoint of `job` and bring it into the store afterwards; durable there when this returns.

    `take` makes an image in the folder that it is given. That is removed when the store has it; where the store fails,
    it stays, and the error says where it is. In the store it has the folder's name, or the next one that is free.
    """
    image = take(image_folder(free_name(job, store), "disk"), None)
    try:
        result = store.put(image, check=False, or_next=True, progress=progress)
    except TorporError as error:
        error.hint = f"the image is whole, at {image.path}; `torpor copy {image.path} {store.url}` tries again"
        raise
    records.image_moved(str(image.path), f"{result.image.head.name}@{store.url}")
    image.remove()
    return result


def free_name(job: str, store: Store) -> str:
    """The first `<job>-<n>` that neither the store nor this user has, nor anybody who brings an image there."""
    from torpor.store.naming import coming

    taken = {one.name for one in store.images()} | store.tags().keys() | coming(store.repository) | paths.image_names()
    return next(name for name in (f"{job}-{n}" for n in range(1, len(taken) + 2)) if name not in taken)
