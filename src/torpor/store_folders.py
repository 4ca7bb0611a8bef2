"""Folders for images on their way into a store and out of it, and their names."""

from __future__ import annotations

from pathlib import Path

from torpor import paths, records
from torpor.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from torpor.store_handle import Store


def image_folder(name: str, tier: str) -> Path:
    """Where an image of that name goes among the user's. UsageError when there is one, in either tier."""
    records.check_name(name)
    for place in ("disk", "dram"):
        if (paths.tier_dir(place) / name).exists():
            raise UsageError(f"there is an image named {name}", hint="choose another with --name")
    if tier == "disk":
        paths.make_private(paths.home())
    return paths.make_private(paths.tier_dir(tier)) / name


def free_name(job: str, store: Store) -> str:
    """The first `<job>-<n>` that neither the store nor this user has, nor anybody who brings an image there."""
    from torpor.store.naming import coming

    taken = {one.name for one in store.images()} | store.tags().keys() | coming(store.repository) | paths.image_names()
    return next(name for name in (f"{job}-{n}" for n in range(1, len(taken) + 2)) if name not in taken)
