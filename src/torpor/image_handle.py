"""Images as their user handles them: found by name or path, shown, removed."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, get_args

from torpor import paths, records
from torpor.errors import ImageDamaged, KeeperUnavailable, NotFound, TorporError, UsageError
from torpor.records import Backend
from torpor.writeback import Course, Target, course_of, forget, opening, order_of, order_to

TYPE_CHECKING = False
if TYPE_CHECKING:
    from torpor.image.manifest import Manifest
    from torpor.keeper.messages import Progress

_TIERS = ("disk", "dram")

KEEPERS = 3
"""How many keepers one after the other may die before somebody who waits for an image hears of it: the next goes on."""


class Flushed(NamedTuple):
    """Where an image is durable: a path, or `IMAGE@STORE`; and what the store said of the put, if it said it."""

    place: str
    put: dict[str, Any] | None


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

    @property
    def handle(self) -> str:
        """By what `torpor restore` finds it: its name or path; on its way, where it is going, which stays right."""
        course = self.course
        if course is not None:
            return course.place
        return self.name if self.is_listed else str(self.path)

    @cached_property
    def manifest(self) -> Manifest:
        """What the image says of itself (docs/format/image.md). Raises ImageDamaged."""
        from torpor.image.reader import read_manifest

        return read_manifest(self.path)

    @property
    def backend(self) -> Backend:
        """The driver that the image needs: `gpu` or `sim`."""
        return "sim" if self.manifest.driver.kind == "sim" else "gpu"

    @property
    def course(self) -> Course | None:
        """How far it is to where it will be durable, for an image in memory that is to go somewhere; else None."""
        return course_of(self.path)

    def describe_state(self) -> str:
        """For people: `durable`, `in memory`, `in memory, 43 % written`, or `in memory, not written: …`."""
        course = self.course
        if course is not None:
            return course.describe()
        return "in memory" if self.in_memory else "durable"

    @property
    def in_memory(self) -> bool:
        """Whether it ends with this host: all of the `dram` tier."""
        return self.manifest.tier == "dram" or self.path.parent == paths.dram_dir()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """While the block runs it stays where it is: one in memory may have become durable, and leave it, otherwise.

        Raises NotFound when it has gone already.
        """
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise NotFound(f"there is no image at {self.path} any more", hint=_whereabouts(self.path)) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            open_image(self.path)
            yield
        finally:
            os.close(descriptor)

    def flush(self, progress: Callable[[Progress], None] | None = None) -> Flushed:
        """Wait until it is durable. One that could not be written is tried again, its store opened as by this process.

        An image that is durable already is done. Raises what keeps it from being written: NoSpace, NoRights,
        StepFailed, WrongState (a store is in use), …; it is whole in memory then, and the keeper tries again later.
        UsageError where it is to go to no place.
        """
        from torpor.keeper.client import KeeperClient, ensure_started

        course = self.course
        if course is None:
            if not self.in_memory:
                return Flushed(str(self.path), None)
            raise UsageError(
                f"{self.name} is in memory, and on its way to no place",
                hint=f"`torpor copy {self.name} STORE` brings it into a store",
            )
        if course.phase == "durable":
            return Flushed(course.place, course.put)
        order = order_of(self.path)
        if order is None:
            return self.flush(progress)  # it became durable between the two looks
        backend = order.backend  # the manifest may have left memory a moment ago
        params = {"image": str(self.path), "env": opening()}
        deaths = 0
        while True:
            ensure_started(backend)
            try:
                result = KeeperClient(backend).call("flush", params, on_progress=progress)
                return Flushed(result["place"], result["put"])
            except KeeperUnavailable:
                deaths += 1
                if deaths == KEEPERS:
                    raise

    def summary(self) -> dict[str, Any]:
        """JSON-safe: name, path, job, tier, sizes in bytes, time of creation."""
        manifest, course = self.manifest, self.course
        return {
            "name": self.name,
            "path": str(self.path),
            "job": manifest.job.name,
            "tier": manifest.tier,
            "driver": manifest.driver.kind,
            "gpu_bytes": manifest.gpu_bytes,
            "cpu_bytes": manifest.cpu_bytes,
            "created": manifest.created,
            "state": self.describe_state(),
            "durable": not self.in_memory,
            "writing": course.facts() if course is not None else None,
        }

    def show(self) -> dict[str, Any]:
        """JSON-safe: the whole manifest and sums of it, as `torpor.image.describe` lays it out."""
        from torpor.image.describe import describe

        course = self.course
        return {
            **describe(self.path, self.manifest),
            "state": self.describe_state(),
            "durable": not self.in_memory,
            "writing": course.facts() if course is not None else None,
        }

    def verify(self) -> None:
        """Check every file's length and hash. Raises ImageDamaged, which names the first wrong one."""
        from torpor.image.reader import verify

        with self.reading():
            verify(self.path, self.manifest)

    def remove(self) -> None:
        """Delete the image. Memory that a keeper holds for it goes back to the keeper's pool.

        One that is on its way to where it would be durable is then nowhere: what has been written of it goes too. One
        that is damaged goes like any other. Raises NotFound when there is none any more, with where it is if it has
        become durable.
        """
        from torpor.keeper.client import KeeperClient

        if not (self.path / "manifest.json").exists():
            raise NotFound(f"there is no image at {self.path} any more", hint=_whereabouts(self.path))
        order, course, keeper = order_of(self.path), self.course, self._keeper()
        if keeper is not None:
            proof = KeeperClient(keeper).call("discard", {"image": str(self.path)})["proof"]
            if order is not None:
                _take_back(order.target, proof)
            return
        # Without its name it is no image any more, whatever happens to the rest.
        aside = self.path.with_name(f"{self.path.name}.partial")
        if aside.exists():
            shutil.rmtree(aside)
        self.path.rename(aside)
        if order is not None:
            forget(self.path)
            _take_back(order.target, course.proof if course is not None else None)
        shutil.rmtree(aside)

    def _keeper(self) -> Backend | None:
        """The keeper that may hold memory for the image."""
        from torpor.keeper.client import listens

        try:
            able: tuple[Backend, ...] = (self.backend,) if self.manifest.tier == "dram" else ()
        except ImageDamaged:
            able = get_args(Backend) if self.path.is_relative_to(paths.dram_dir()) else ()
        return next((backend for backend in able if listens(backend)), None)


def open_image(path: Path) -> Image:
    """The image in that folder, or in memory on its way there; NotFound when there is none."""
    if not (path / "manifest.json").is_file():
        if order := order_to(str(path)):
            return Image(Path(order.image))
        if path.with_name(f"{path.name}.partial").is_dir():
            raise NotFound(f"{path} was never finished", hint="take the checkpoint again")
        raise NotFound(f"there is no image at {path}", hint=_whereabouts(path))
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
    if Path(text, "manifest.json").is_file():
        raise NotFound(f"no image named {text!r}", hint=f"a path needs a slash: ./{text} is one")
    raise NotFound(f"no image named {text!r}", hint=_whereabouts(paths.dram_dir() / text))


def _whereabouts(path: Path) -> str:
    """A hint where an image may be that is not at `path`."""
    course = course_of(path)
    if course is not None and course.phase == "durable":
        return f"it has become durable: `{course.place}` names it"
    return "`torpor images` lists the images"


def _take_back(target: Target, proof: str | None) -> None:
    """Remove what is at an image's target, if it is this image: it may have been committed a moment ago."""
    if target.path is not None:
        shutil.rmtree(f"{target.path}.partial", ignore_errors=True)
    if proof is None:
        return
    if target.store is None:
        image = Image(Path(str(target.path)))
        if (image.path / "manifest.json").is_file() and image.manifest.checksum == proof:
            image.remove()
        return
    from torpor.store_handle import open_store

    with open_store(target.store) as store:
        for one in store.images():
            if one.id == proof:
                one.remove()


def every_image() -> tuple[list[Image], list[tuple[Image, TorporError]]]:
    """The complete images of all tiers: those that can be read, the oldest first, and the others with what is wrong."""
    found, unreadable = [], []
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
            except TorporError as error:
                unreadable.append((image, error))
    return [image for _, image in sorted(found, key=lambda pair: pair[0])], unreadable


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
