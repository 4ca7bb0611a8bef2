"""Pack files: many chunks, one after the other, and a directory at the end that says which and where."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from torpor.store.backend import Backend
from torpor.store.sealed import FORMAT, SEAL, check_format, damaged

MAGIC = b"TORPOR-P"
PACK = 64 << 20
"""A pack is closed when it has as many bytes: large enough for a disk and an object store, small enough for memory."""

ENTRY = np.dtype([("id", "<u8", 4), ("offset", "<u4"), ("stored", "<u4"), ("length", "<u4"), ("codec", "u1")])
"""A chunk in a directory: its BLAKE3, where it lies, its bytes there and as they were, its codec. 45 bytes, packed."""

MOST_CHUNK = 16 << 20
"""Bytes of the largest chunk that a store may have."""

_FOOTER = struct.Struct("<II8s")  # bytes of the directory, format, magic
_TAIL = 64 << 10
_PAGE = 4096

Entries = NDArray[np.void]
"""An array of ENTRY."""


class Chunk(NamedTuple):
    """An encoded chunk on its way into a pack."""

    digest: bytes
    length: int
    codec: int
    data: bytes | memoryview


class _Placed(NamedTuple):
    """An entry of a directory that is being made."""

    digest: bytes
    offset: int
    stored: int
    length: int
    codec: int


class Pack(NamedTuple):
    """A finished pack, ready to be written as `packs/<name>`. Its parts are the builder's memory."""

    name: str
    parts: list[bytes | memoryview]
    size: int
    entries: Entries


class PackBuilder:
    """Collects chunks until `size` reaches what its user finds enough.

    `reserve` and the rest are for one thread at a time; `fill` for any number, each its own place, without the GIL.
    `memory` (bytes, as many as the largest pack) may be an earlier builder's: fresh memory costs more than copies.
    """

    def __init__(self, memory: NDArray[np.uint8] | None = None) -> None:
        self.memory = _aligned(PACK + MOST_CHUNK) if memory is None else memory
        self._places: list[_Placed] = []
        self.size = len(MAGIC)
        self.memory[: self.size] = np.frombuffer(MAGIC, np.uint8)

    @property
    def is_empty(self) -> bool:
        return not self._places

    def add(self, chunk: Chunk) -> None:
        self.fill(self.reserve(chunk), chunk)

    def reserve(self, chunk: Chunk) -> int:
        """Take the next place for a chunk, and return where it is."""
        at = self.size
        self._places.append(_Placed(chunk.digest, at, len(chunk.data), chunk.length, chunk.codec))
        self.size += len(chunk.data)
        return at

    def fill(self, at: int, chunk: Chunk) -> None:
        """Copy the chunk to its place."""
        self.memory[at : at + len(chunk.data)] = np.frombuffer(chunk.data, np.uint8)

    def finish(self) -> Pack:
        """The pack; its name is the BLAKE3 of its directory, so the same chunks make the same pack."""
        return _finished(self._places, [self.memory[: self.size].data])


def gathered(chunks: Sequence[Chunk]) -> Pack:
    """The same of chunks that stay where they are."""
    ends = list(accumulate((len(chunk.data) for chunk in chunks), initial=len(MAGIC)))
    places = [
        _Placed(one.digest, at, len(one.data), one.length, one.codec) for at, one in zip(ends, chunks, strict=False)
    ]
    return _finished(places, [MAGIC, *(chunk.data for chunk in chunks)])


def _finished(places: list[_Placed], parts: list[bytes | memoryview]) -> Pack:
    entries = np.zeros(len(places), ENTRY)
    entries["id"] = np.frombuffer(b"".join(one.digest for one in places), "<u8").reshape(-1, 4)
    for column, key in enumerate(_Placed._fields[1:], start=1):
        entries[key] = [one[column] for one in places]
    directory = entries.tobytes()
    seal = blake3(directory).digest()
    footer = seal + _FOOTER.pack(len(directory), FORMAT, MAGIC)
    size = sum(map(len, parts)) + len(directory) + len(footer)
    return Pack(seal.hex(), [*parts, directory, footer], size, entries)


def _aligned(size: int) -> NDArray[np.uint8]:
    """Memory at a multiple of a page, which can be written to a disk without a copy."""
    memory = np.empty(size + _PAGE, np.uint8)
    start = -memory.ctypes.data % _PAGE
    return memory[start : start + size]


def read_directory(backend: Backend, name: str) -> Entries:
    """The directory of `packs/<name>`, checked against the name. Raises NoObject, ImageDamaged, ImageMismatch."""
    key = f"packs/{name}"
    size = backend.size(key)
    tail = backend.read(key, max(size - _TAIL, 0))
    ending = SEAL + _FOOTER.size
    if len(tail) < ending:
        raise damaged(backend, key, f"it ends after {size} bytes")
    length, version, magic = _FOOTER.unpack_from(tail, len(tail) - _FOOTER.size)
    if magic != MAGIC:
        raise damaged(backend, key, "it does not end as a pack does")
    check_format(backend, key, version)
    begin = size - ending - length
    if length % ENTRY.itemsize or begin < len(MAGIC):
        raise damaged(backend, key, "its directory has a length that makes no sense")
    directory = tail[-ending - length : -ending] if length + ending <= len(tail) else backend.read(key, begin, length)
    if blake3(directory).hexdigest() != name or tail[-ending : -_FOOTER.size].hex() != name:
        raise damaged(backend, key, "its directory has changed")
    entries = np.frombuffer(directory, ENTRY)
    ends = entries["offset"].astype(np.int64) + entries["stored"]
    check_sizes(backend, key, entries)
    starts = np.concatenate(([len(MAGIC)], ends[:-1])) if len(entries) else ends
    if not np.array_equal(starts, entries["offset"]) or (ends[-1] if len(entries) else len(MAGIC)) != begin:
        raise damaged(backend, key, "its directory does not fit its size")
    if backend.read(key, 0, len(MAGIC)) != MAGIC:
        raise damaged(backend, key, "it does not begin as a pack does")
    return entries


def check_sizes(backend: Backend, name: str, entries: Entries) -> None:
    """ImageDamaged when an object (by its name) speaks of a chunk that is larger than any: nobody makes room for it."""
    if len(entries) and max(int(entries["length"].max()), int(entries["stored"].max())) > MOST_CHUNK:
        raise damaged(backend, name, "it has a chunk that is larger than chunks can be")
