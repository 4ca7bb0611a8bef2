"""Images in memory on their way to where they are durable: what is to be done with each, and how far that is.

Beside the images of the `dram` tier, in TORPOR_DRAM/.writing, an image that has such a way ahead of it has an *order*:
where it is to go, and the variables by which that place is opened. It is written before the image is complete, and goes
when the image is durable, so no image is forgotten whoever dies. What lies beside it says how far it is: the *course*,
which only the process that holds the lock of the order writes, and which stays for a while after the order has gone.
The keeper's side is `torpor.keeper.writeback`.
"""

from __future__ import annotations

import errno
import glob
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from torpor import paths, records
from torpor.records import Backend

FOLDER = ".writing"
"""In TORPOR_DRAM. The dot keeps it apart from images."""

_OPENS = re.compile(
    r"AWS_\w+|TORPOR_KEY_\w+|TORPOR_LIMIT|HOME|PATH|SSL_CERT_\w+|\w+_PROXY|REQUESTS_CA_BUNDLE", re.IGNORECASE
)
"""Variables by which a store is found and opened."""

Phase = Literal["waiting", "writing", "written", "failed", "durable"]


class Target(msgspec.Struct, kw_only=True):
    """Where an image is to go: by `name` into the `store` of that URL, or as the folder `path`.

    `env` are the variables of whoever asked for it that open the store; they may be secrets.
    """

    name: str
    store: str | None = None
    path: str | None = None
    env: dict[str, str] = {}

    @property
    def place(self) -> str:
        """The image there, as its user knows it."""
        return str(self.path) if self.store is None else f"{self.name}@{self.store}"


class Order(msgspec.Struct, kw_only=True):
    """That the image in the folder `image` is to go to `target`, by the keeper of that `home` (mark) and backend."""

    image: str
    target: Target
    home: str
    backend: Backend
    given: float = msgspec.field(default_factory=time.time)


class Course(msgspec.Struct, kw_only=True):
    """How far an image is: `bytes` of `total` have been read and written, or were there already.

    `written`: it is durable at `place`, and still in memory; `durable`: only there. `failed`: the last of `tries` did
    because of `error` (a TorporError's `to_dict`), and the next is at `again` (seconds since the epoch). `proof` tells
    that what is there is this very image: it is noted before the image is committed. `put` is what a store said.
    `asked` is where the image was to go at first, if somebody else had that name when it arrived.
    """

    phase: Phase = "waiting"
    place: str
    bytes: int = 0
    total: int = 0
    tries: int = 0
    again: float = 0.0
    error: dict[str, Any] | None = None
    proof: str | None = None
    put: dict[str, Any] | None = None
    asked: str | None = None

    def describe(self) -> str:
        """For people: how far it is, in a few words."""
        match self.phase:
            case "durable":
                return "durable"
            case "failed":
                return f"in memory, not written: {(self.error or {}).get('message', 'no reason is known')}"
        share = 100 if self.phase == "written" else 100 * self.bytes // self.total if self.total else 0
        return f"in memory, {share} % written"

    def facts(self) -> dict[str, Any]:
        """JSON-safe: what `images`, `show` and the keeper's status say."""
        return {
            "phase": self.phase,
            "place": self.place,
            "bytes": self.bytes,
            "total": self.total,
            "tries": self.tries,
            "error": self.error,
        }


def opening() -> dict[str, str]:
    """This process's variables that say how a store is opened, for another that works in another folder."""
    return {key: _absolute(key, value) for key, value in os.environ.items() if _OPENS.fullmatch(key)}


def _absolute(key: str, value: str) -> str:
    if not value or not key.endswith(("_FILE", "_BUNDLE")):
        return value
    return ":".join(os.path.abspath(one) for one in value.split(":") if one)


def environment(opening: Mapping[str, str]) -> dict[str, str]:
    """This process's environment, with those variables as they are where somebody else opens a store (`opening`)."""
    return {key: value for key, value in os.environ.items() if not _OPENS.fullmatch(key)} | dict(opening)


def folder() -> Path:
    """Where the orders are."""
    return paths.dram_dir() / FOLDER


def order_file(image: Path) -> Path:
    return folder() / f"{image.name}.json"


def course_file(image: Path) -> Path:
    return folder() / f"{image.name}.course"


def lock_file(image: Path) -> Path:
    """Locked (flock) by the process that writes the image."""
    return folder() / f"{image.name}.lock"


def is_ordinary(image: Path) -> bool:
    """Whether an image lies where one with an order does."""
    return image.parent == paths.dram_dir()


def give(image: Path, target: Target, backend: Backend) -> None:
    """Write the order for an image that is about to be complete."""
    paths.make_private(folder())
    course_file(image).unlink(missing_ok=True)
    save(Order(image=str(image), target=target, home=paths.home_mark(), backend=backend))
    save_course(image, Course(place=target.place))


def save(order: Order) -> None:
    records.write_atomically(order_file(Path(order.image)), msgspec.json.encode(order))


def save_course(image: Path, course: Course) -> None:
    """Where the memory is full, too: then, of all times, images must leave it."""
    file, data = course_file(image), msgspec.json.encode(course)
    try:
        records.write_atomically(file, data)
    except OSError as error:
        if error.errno != errno.ENOSPC or not file.exists():
            raise
        # Into the page that it has had from the start. Spaces after JSON say nothing.
        with file.open("r+b", buffering=0) as out:
            out.write(data.ljust(file.stat().st_size))


def order_of(image: Path) -> Order | None:
    """The order of the image in that folder, if it has one."""
    return _read(order_file(image), Order) if is_ordinary(image) else None


def course_of(image: Path) -> Course | None:
    """How far an image is that has, or had until a while ago, an order."""
    if not is_ordinary(image):
        return None
    order = order_of(image)
    course = _read(course_file(image), Course)
    if order is None:
        # Another image of that name may be there by now, which is on its way to nowhere.
        left = course is not None and course.phase == "durable" and not (image / "manifest.json").exists()
        return course if left else None
    return course or Course(place=order.target.place)


def orders() -> list[Order]:
    """All orders of this home, the oldest first."""
    found = [_read(file, Order) for file in folder().glob("*.json")] if folder().is_dir() else []
    mark = paths.home_mark()
    return sorted((one for one in found if one is not None and one.home == mark), key=lambda one: one.given)


def order_to(place: str) -> Order | None:
    """The order by which an image is on its way to a place, as its user knows it, and whole in memory."""
    for order in orders():
        if order.target.place == place and (Path(order.image) / "manifest.json").is_file():
            return order
    return None


def place_now(place: str) -> str:
    """Where the image is, or is going, that was to go to a place, as its user knows it; mostly that very place."""
    for file in folder().glob("*.course") if folder().is_dir() else []:
        course = _read(file, Course)
        if course is not None and course.asked == place:
            return str(course.place)
    return place


def forget(image: Path) -> None:
    """The image has no way ahead of it any more."""
    order_file(image).unlink(missing_ok=True)
    course_file(image).unlink(missing_ok=True)
    lock_file(image).unlink(missing_ok=True)


def sweep(image: Path) -> None:
    """Remove what somebody who was killed had begun to write of the order or the course; nobody is at them now."""
    for file in (order_file(image), course_file(image)):
        for left in folder().glob(f"{glob.escape(f'.{file.name}.')}*"):
            left.unlink(missing_ok=True)


def _read(file: Path, kind: type[Any]) -> Any:
    """What a file holds; None when it is not there, or is not what it should be."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError):
        return None
