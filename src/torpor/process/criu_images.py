"""Reads CRIU's image files: a magic number, then entries, each a length and a protobuf message.

The numbers of files and fields are those of CRIU's protobuf definitions. Nothing here knows a schema as a whole.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from torpor.errors import ImageDamaged, TorporError

MAGIC = 0x54564319
_PIPES_DATA = 0x56453709

Fields = dict[int, int | bytes]


def pipe_contents(folder: Path, key: str) -> bytes:
    """What was in the pipe with CRIU's key `pipe:[inode]` at the dump into `folder`.

    CRIU puts it back into the pipes that it makes, but not into those that it inherits. Raises TorporError for an
    image that is not as expected.
    """
    wanted = int(key.removeprefix("pipe:[").removesuffix("]"))
    path = folder / "pipes-data.img"
    data = path.read_bytes()
    at = _begin(path, data, _PIPES_DATA)
    while at < len(data):
        entry, at = _message(path, data, at)
        pipe = fields(entry)
        size = number(pipe, 2)
        if at + size > len(data):
            raise _short(path)
        if number(pipe, 1) == wanted:
            return data[at : at + size]
        at += size
    return b""


def raw_entries(path: Path, magic: int) -> list[bytes]:
    """The entries of a CRIU image file, undecoded."""
    data = path.read_bytes()
    found, at = [], _begin(path, data, magic)
    while at < len(data):
        entry, at = _message(path, data, at)
        found.append(entry)
    return found


def entries(path: Path, magic: int) -> list[Fields]:
    return [fields(entry) for entry in raw_entries(path, magic)]


class GrowingImage:
    """A CRIU image file that is read while it is written."""

    def __init__(self, path: Path, magic: int) -> None:
        self.path = path
        self._magic = magic
        self._read = 0  # bytes, whole entries alone

    def more(self) -> list[Fields]:
        """The entries that have become whole since the last time."""
        with self.path.open("rb") as file:
            file.seek(self._read)
            data = file.read()
        at = 0
        if not self._read and len(data) >= 8:
            at = _begin(self.path, data, self._magic)
        found = []
        while (at or self._read) and at + 4 <= len(data):
            end = at + 4 + int(struct.unpack_from("<I", data, at)[0])
            if end > len(data):
                break
            found.append(fields(data[at + 4 : end]))
            at = end
        self._read += at
        return found

    def end(self) -> None:
        """Raises ImageDamaged when something follows the last whole entry, or nothing has ever been read."""
        if not self._read or self.path.stat().st_size != self._read:
            raise _short(self.path)


def number(entry: Fields, field: int) -> int:
    """A field that is a number; 0 when it is not there."""
    value = entry.get(field, 0)
    return value if isinstance(value, int) else 0


def fields(message: bytes) -> Fields:
    """A message's fields by their numbers; of a repeated one the last."""
    return dict(_walk(message))


def rewritten(message: bytes, changes: Mapping[int, int | bytes]) -> bytes:
    """The message with other values for some of its fields, and those it lacks. No field may be of fixed width."""
    out, left = bytearray(), dict(changes)
    for field, value in _walk(message):
        left.pop(field, None)
        out += encoded_field(field, changes.get(field, value))
    for field, value in left.items():
        out += encoded_field(field, value)
    return bytes(out)


def encoded_field(field: int, value: int | bytes) -> bytes:
    """One field of a message as protobuf has it."""
    if isinstance(value, int):
        return write_varint(field << 3) + write_varint(value)
    return write_varint(field << 3 | 2) + write_varint(len(value)) + value


def write_entries(path: Path, magic: int, messages: Iterable[bytes]) -> None:
    """Replace a CRIU image file by these entries."""
    out = bytearray(struct.pack("<II", MAGIC, magic))
    for message in messages:
        out += struct.pack("<I", len(message)) + message
    path.write_bytes(out)


def write_varint(value: int) -> bytes:
    """A number as protobuf has it."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def repeated(message: bytes, wanted: int) -> list[bytes]:
    """All values of a field that holds messages."""
    return [value for field, value in _walk(message) if field == wanted and isinstance(value, bytes)]


def numbers(message: bytes) -> list[tuple[int, int]]:
    """The fields that are numbers, in order, with all values of repeated ones."""
    return [(field, value) for field, value in _walk(message) if isinstance(value, int)]


def _begin(path: Path, data: bytes, magic: int) -> int:
    if len(data) < 8 or struct.unpack_from("<II", data) != (MAGIC, magic):
        raise TorporError(f"{path.name} is not the CRIU image that its name says")
    return 8


def _short(path: Path) -> ImageDamaged:
    return ImageDamaged(f"the image's file {path.name} is short", hint="the image is damaged; restore another")


def _message(path: Path, data: bytes, at: int) -> tuple[bytes, int]:
    if at + 4 > len(data):
        raise _short(path)
    (length,) = struct.unpack_from("<I", data, at)
    end = at + 4 + length
    if end > len(data):
        raise _short(path)
    return data[at + 4 : end], end


def _walk(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a protobuf message, in order: numbers as int, everything else as bytes."""
    at = 0
    while at < len(message):
        key, at = _read_varint(message, at)
        kind = key & 7
        if kind == 0:
            value, at = _read_varint(message, at)
            yield key >> 3, value
            continue
        if kind == 2:
            length, at = _read_varint(message, at)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise TorporError(f"a CRIU image has a field of an unknown kind ({kind})")
        yield key >> 3, message[at : at + length]
        at += length


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at += 1
        shift += 7
        if byte < 0x80:
            return value, at
