"""How the store's own objects are written: a head that can be read alone, a body, and a BLAKE3 seal after each.

Small ones (config, tags, locks) are a line of JSON and a line with its hash, so that people can read them.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import msgspec
from blake3 import blake3

from torpor.errors import ImageDamaged, ImageMismatch, NotFound
from torpor.store.backend import Backend

FORMAT = 1
"""Version of everything in a store but of some images (`contents.FORMAT`). A reader refuses a higher one by name."""

OBJECT_ERRORS = (ImageDamaged, ImageMismatch, NotFound)
"""What says that an object is wrong. Other errors (no answer, for one) say nothing of it: nobody takes it for damaged
then, nor goes on as if it were not there."""

SEAL = 32
_START = struct.Struct("<8sIIQ")  # magic, format, bytes of the head, bytes of the body
_MOST_HEAD = 1 << 20
_FIRST_READ = 4096


class Head(NamedTuple):
    """A sealed object's head: its JSON data, where its body begins, and how long that is, in bytes."""

    data: Any
    body_at: int
    body_length: int


def pack_object(magic: bytes, head: Any, body: bytes, version: int = FORMAT) -> tuple[str, list[bytes]]:
    """The parts of a sealed object and its name, the 64 hex digits of its last seal. `magic` has 8 bytes."""
    text = msgspec.json.encode(head)
    start = _START.pack(magic, version, len(text), len(body)) + text
    first = blake3(start).digest()
    last = _last_seal(first, body)
    return last.hex(), [start, first, body, last]


def read_head(backend: Backend, name: str, magic: bytes, newest: int = FORMAT) -> Head:
    """The head alone, its seal checked. Raises NoObject, ImageDamaged, ImageMismatch (of a format after `newest`)."""
    data = backend.read(name, 0, _FIRST_READ)
    length, body = _sizes(backend, name, magic, data, newest)
    end = _START.size + length
    if len(data) < end + SEAL:
        data = backend.read(name, 0, end + SEAL)
    return _checked_head(backend, name, data, length, body)


def unpack_object(backend: Backend, name: str, magic: bytes, newest: int = FORMAT) -> tuple[Any, memoryview]:
    """Head and body, both seals checked, and the name against the last one. Errors as for `read_head`."""
    data = backend.read(name)
    length, body = _sizes(backend, name, magic, data, newest)
    head = _checked_head(backend, name, data, length, body)
    end = head.body_at + body
    if len(data) != end + SEAL:
        raise damaged(backend, name, f"it has {len(data)} bytes instead of {end + SEAL}")
    view = memoryview(data)
    seal = bytes(view[end:])
    if _last_seal(data[head.body_at - SEAL : head.body_at], view[head.body_at : end]) != seal:
        raise damaged(backend, name, "its contents have changed")
    if name.rpartition("/")[2] != seal.hex():
        raise damaged(backend, name, "it is another object than its name says")
    return head.data, view[head.body_at : end]


def pack_json(data: Any) -> list[bytes]:
    """A small object: one line of JSON, and one with its hash."""
    line = msgspec.json.encode(data) + b"\n"
    return [line, f"blake3:{blake3(line).hexdigest()}\n".encode()]


def unpack_json(backend: Backend, name: str) -> Any:
    """What `pack_json` wrote. Raises NoObject, ImageDamaged."""
    data = backend.read(name)
    line, _, rest = data.partition(b"\n")
    line += b"\n"
    if rest != f"blake3:{blake3(line).hexdigest()}\n".encode():
        raise damaged(backend, name, "its contents are not those that were written")
    return msgspec.json.decode(line)


def damaged(backend: Backend, name: str, what: str, hint: str | None = None) -> ImageDamaged:
    """The error for an object that is not as it was written."""
    return ImageDamaged(
        f"{name} of the store {backend.url} is damaged: {what}",
        hint=hint or "`torpor verify` tells which images this concerns",
        details={"object": name},
    )


def check_format(backend: Backend, name: str, found: int, newest: int = FORMAT) -> None:
    """ImageMismatch when an object is of a newer format than this Torpor reads."""
    if found > newest:
        raise ImageMismatch(
            f"{name} of the store {backend.url} has format {found}; this Torpor reads up to {newest}",
            hint="use a newer Torpor",
        )


def _sizes(backend: Backend, name: str, magic: bytes, data: bytes, newest: int) -> tuple[int, int]:
    if len(data) < _START.size:
        raise damaged(backend, name, f"it ends after {len(data)} bytes")
    found, version, length, body = _START.unpack_from(data)
    if found != magic:
        raise damaged(backend, name, "it does not begin as such an object does")
    if length > _MOST_HEAD:
        raise damaged(backend, name, "its head has a length that makes no sense")
    check_format(backend, name, version, newest)
    return length, body


def _checked_head(backend: Backend, name: str, data: bytes, length: int, body: int) -> Head:
    end = _START.size + length
    if len(data) < end + SEAL:
        raise damaged(backend, name, f"it ends after {len(data)} bytes")
    if blake3(data[:end]).digest() != data[end : end + SEAL]:
        raise damaged(backend, name, "its head has changed")
    return Head(msgspec.json.decode(data[_START.size : end]), end + SEAL, body)


def _last_seal(first: bytes, body: bytes | memoryview) -> bytes:
    return blake3(first).update(body).digest()
