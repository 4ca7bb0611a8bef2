"""What a store needs of the place where it lies: whole objects by name, nothing else.

Everything above this interface works alike on a folder, in an archive and on an object store, and wrappers (retry,
bandwidth limit, encryption) are backends over a backend. `tests/store/contract.py` is what each has to pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from torpor.errors import NotFound, StepFailed, TorporError

KINDS = ("packs", "index", "images", "tags", "locks")
"""The folders of a store; an object's name is `<kind>/<name>`, but for the one object `config`."""

CONFIG = "config"

_NAME = re.compile(rf"(?:{'|'.join(KINDS)})/[A-Za-z0-9][A-Za-z0-9_.-]{{0,127}}|{CONFIG}")


class NoObject(NotFound):
    """The store has no object of that name."""

    def __init__(self, where: str, name: str) -> None:
        super().__init__(
            f"{where} has no {name}", hint="`torpor verify` tells what is missing", details={"object": name}
        )


class Passing(StepFailed):
    """A failure of the place that may have passed when the same is tried again: no answer, or one that says so."""


class Stored(NamedTuple):
    """One object of a listing: its name with its kind (`packs/…`), and its size in bytes."""

    name: str
    size: int


class Backend(Protocol):
    """A place for named, immutable objects. All methods may be called from several threads at once.

    Names are those that `check_name` lets pass. Besides what each method names, they raise NoRights, NoSpace, and
    StepFailed for other failures of the place (Passing where trying again may help), always with the place and the
    object in the message; one that checks what it reads raises ImageDamaged. No other exceptions leave a backend.
    """

    @property
    def readers(self) -> int:
        """Reads at a time that the place serves faster than one after the other; 1 where processors are the limit."""

    @property
    def gathers(self) -> bool:
        """Whether it takes parts from wherever they lie as soon as from one piece of memory, and lets nobody wait."""

    @property
    def url(self) -> str:
        """Where it is, as a user would write it; never with a secret in it."""

    def list(self, kind: str) -> Iterator[Stored]:
        """The complete objects of one of KINDS, in no order. Everything written before the call is in it."""

    def size(self, name: str) -> int:
        """Bytes of an object. Raises NoObject."""

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """`length` bytes from `offset` on, all that follow by default; fewer only where the object ends before.

        Raises NoObject. A range that begins at or behind the end is empty.
        """

    def read_into(self, name: str, offset: int, rooms: Sequence[memoryview]) -> int:
        """As `read`, with the bytes put into these pieces of memory, one after the other; returns how many came.

        After a failure they may have anything in them.
        """

    def write(self, name: str, parts: Sequence[bytes | memoryview]) -> None:
        """Make an object of these parts, one after the other.

        It is there wholly or not at all, whatever happens meanwhile, and replaces one of the same name. When this
        returns it is durable, and the parts' memory is used for something else. A failure, or an end of this process,
        leaves the old object or none.
        """

    def delete(self, names: Sequence[str]) -> None:
        """Remove objects; those that are not there are passed over. Durable for all of them when this returns."""

    def sweep(self) -> int:
        """Remove what writes that were cut short have left; returns its bytes.

        Only for who knows that nobody else writes (the holder of the exclusive lock).
        """

    def close(self) -> None:
        """Give back connections and descriptors; nothing else is called afterwards."""


def pour(data: bytes, rooms: Sequence[memoryview]) -> int:
    """Put data into pieces of memory, which take them all, as `read_into` does where a place only gives objects."""
    at = 0
    for room in rooms:
        part = memoryview(data)[at : at + len(room)]
        copy(part, room[: len(part)])
        at += len(part)
    return at


def copy(data: bytes | memoryview, room: memoryview) -> None:
    """Copy bytes into memory of the same size, without the GIL."""
    np.copyto(np.frombuffer(room, np.uint8), np.frombuffer(data, np.uint8))


def check_name(name: str) -> str:
    """`name` itself; TorporError when it can be no object's name, so that none leads out of the store."""
    if not _NAME.fullmatch(name):
        raise TorporError(f"{name!r} is not the name of an object of a store")
    return name


def check_kind(kind: str) -> str:
    """`kind` itself; TorporError when it is none of KINDS."""
    if kind not in KINDS:
        raise TorporError(f"{kind!r} is not a kind of object of a store")
    return kind
