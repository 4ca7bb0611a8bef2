"""Images as their user handles them: found by name or path, shown, removed."""

from __future__ import annotations

import os
import shutil
from functools import cached_property
from pathlib import Path
from typing import Any

from torpor import paths, records
from torpor.errors import NotFound, TorporError
from torpor.records import Backend

TYPE_CHECKING = False
if TYPE_CHECKING:
    from torpor.image.manifest import Manifest

_TIERS = ("disk", "dram")


class Image:
    """A complete image at `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __repr__(self) -> str:
        return f"<torpor.Image {self.path}>"

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def is_listed(self) -> bool:
        """Whether the image is in one of this user's folders, so that its name alone finds it."""
        return self.path.parent in [paths.tier_dir(tier) for tier in _TIERS]

    @cached_property
    def manifest(self) -> Manifest:
        """What the image says of itself (docs/format/image.md). Raises ImageDamaged."""
        from torpor.image.reader import read_manifest

        return read_manifest(self.path)

    @property
    def backend(self) -> Backend:
        """The driver that the image needs: `gpu` or `sim`."""
        return "sim" if self.manifest.driver.kind == "sim" else "gpu"

    def summary(self) -> dict[str, Any]:
        """JSON-safe: name, path, job, tier, sizes in bytes, time of creation."""
        manifest = self.manifest
        return {
            "name": self.name,
            "path": str(self.path),
            "job": manifest.job.name,
            "tier": manifest.tier,
            "driver": manifest.driver.kind,
            "gpu_bytes": manifest.gpu_bytes,
            "cpu_bytes": manifest.cpu_bytes,
            "created": manifest.created,
        }

    def show(self) -> dict[str, Any]:
        """JSON-safe: the whole manifest and sums of it, as `torpor.image.describe` lays it out."""
        from torpor.image.describe import describe

        return describe(self.path, self.manifest)

    def verify(self) -> None:
        """Check every file's length and hash. Raises ImageDamaged, which names the first wrong one."""
        from torpor.image.reader import verify

        verify(self.path, self.manifest)

    def remove(self) -> None:
        """Delete the image. Memory that a keeper holds for it goes back to the keeper's pool."""
        from torpor.keeper.client import KeeperClient, listens

        backend = self.backend
        if self.manifest.tier == "dram" and listens(backend):
            KeeperClient(backend).call("discard", {"image": str(self.path)})
            return
        # Without its name it is no image any more, whatever happens to the rest.
        aside = self.path.with_name(f"{self.path.name}.partial")
        if aside.exists():
            shutil.rmtree(aside)
        self.path.rename(aside)
        shutil.rmtree(aside)


def open_image(path: Path) -> Image:
    """The image in that folder; NotFound when it holds none."""
    if not (path / "manifest.json").is_file():
        if path.with_name(f"{path.name}.partial").is_dir():
            raise NotFound(f"{path} was never finished", hint="take the checkpoint again")
        raise NotFound(f"there is no image at {path}", hint="`torpor images` lists the images")
    return Image(path)


def find_image(name: str | os.PathLike[str]) -> Image:
    """The image at a path (anything with a slash), or of that name in one of the tiers' folders."""
    text = os.fspath(name)
    if "/" in text:
        return open_image(Path(os.path.abspath(text)))
    records.check_name(text)
    for tier in _TIERS:
        folder = paths.tier_dir(tier) / text
        if (folder / "manifest.json").is_file():
            return Image(folder)
    raise NotFound(f"no image named {text!r}", hint="`torpor images` lists the images")


def every_image() -> list[Image]:
    """The complete and readable images of all tiers, the oldest first."""
    found = []
    for tier in _TIERS:
        try:
            entries = sorted(os.scandir(paths.tier_dir(tier)), key=lambda entry: entry.name)
        except FileNotFoundError:
            continue
        for entry in entries:
            if entry.name.endswith(".partial") or not Path(entry.path, "manifest.json").is_file():
                continue
            image = Image(Path(entry.path))
            try:
                found.append((image.manifest.created, image))
            except TorporError:
                continue
    return [image for _, image in sorted(found, key=lambda pair: pair[0])]


def free_image_path(job: str, tier: str) -> Path:
    """Where the next image of a job goes: the first `<job>-<n>` that neither tier has."""
    number = 1
    while any(
        (paths.tier_dir(place) / f"{job}-{number}{ending}").exists() for place in _TIERS for ending in ("", ".partial")
    ):
        number += 1
    folder = paths.tier_dir(tier)
    if tier == "dram":
        paths.make_private(folder)
    else:
        paths.make_private(paths.home())
        folder.mkdir(exist_ok=True)
    return folder / f"{job}-{number}"
