"""What the store keeps of an image besides chunks: one sealed object, `images/<id>`.

Its head is all that a listing reads; its body holds the image's own manifest, the files, the streams, and the names of
their chunks in order.
"""

from __future__ import annotations

import struct
from typing import Any

import msgspec
import numpy as np
import zstandard
from numpy.typing import NDArray

from torpor.errors import TorporError, UsageError
from torpor.records import check_name
from torpor.store import sealed
from torpor.store.backend import Backend
from torpor.store.index import Ids
from torpor.store.plan import Extent, Kind

MAGIC = b"TORPOR-M"
FORMAT = 2
"""The newest version of an image's object: 2 where files of its manifest have no hash, else 1."""
_DOCUMENT = struct.Struct("<QQ")  # bytes of the compressed document, and of it as it was
_MOST_DOCUMENT = 1 << 32


class ImageHead(msgspec.Struct, kw_only=True):
    """An image in a listing. `stored` is the time of its arrival, nanoseconds since the epoch; sizes in bytes."""

    name: str
    job: str
    driver: str
    created: str
    stored: int
    torpor: str
    gpu_bytes: int
    cpu_bytes: int
    bytes: int
    chunks: int


class StoredFile(msgspec.Struct, kw_only=True, array_like=True):
    path: str
    size: int
    mode: int
    modified: int


class StoredFolder(msgspec.Struct, kw_only=True, array_like=True):
    path: str
    mode: int


class StoredStream(msgspec.Struct, kw_only=True, array_like=True):
    """As `plan.Stream`, with the number of its pieces in place of their lengths."""

    label: str
    kind: Kind
    extents: list[Extent]
    pieces: int


class Document(msgspec.Struct, kw_only=True):
    """`manifest` is the image's `manifest.json` as it is written when the image is brought back.

    Where it is not `hashed`, files of the manifest have no hash: the names of their chunks say what they are, and who
    makes a folder of the image writes the hashes in.
    """

    chunk: int
    manifest: bytes
    files: list[StoredFile]
    folders: list[StoredFolder]
    streams: list[StoredStream]
    hashed: bool = True


class Contents(msgspec.Struct, kw_only=True):
    """Everything about one image. Piece i has `lengths[i]` bytes and the name `ids[i]`; four zero words are zeros.

    Pieces are those of the streams, in order. Shapes: lengths (n,), ids (n, 4).
    """

    head: ImageHead
    document: Document
    lengths: NDArray[np.uint32]
    ids: Ids

    def used(self) -> Ids:
        """The names of its chunks, zeros left out."""
        return self.ids[self.ids.any(axis=1)]


def encode(contents: Contents) -> tuple[str, list[bytes]]:
    """The object's name and parts."""
    text = msgspec.msgpack.encode(contents.document)
    packed = zstandard.compress(text, 3)
    lengths = contents.lengths.astype("<u4").tobytes()
    body = _DOCUMENT.pack(len(packed), len(text)) + packed + lengths + contents.ids.astype("<u8").tobytes()
    version = 1 if contents.document.hashed else 2
    return sealed.pack_object(MAGIC, msgspec.to_builtins(contents.head), body, version)


def read_head(backend: Backend, identity: str) -> ImageHead:
    """The head of `images/<identity>`. Raises NoObject, ImageDamaged, ImageMismatch."""
    name = f"images/{identity}"
    return _head(backend, name, sealed.read_head(backend, name, MAGIC, FORMAT).data)


def read(backend: Backend, identity: str) -> Contents:
    """All of `images/<identity>`, checked. Raises NoObject, ImageDamaged, ImageMismatch."""
    name = f"images/{identity}"
    data, body = sealed.unpack_object(backend, name, MAGIC, FORMAT)
    try:
        packed, plain = _DOCUMENT.unpack_from(body)
        at = _DOCUMENT.size + packed
        if plain > _MOST_DOCUMENT or zstandard.frame_content_size(body[_DOCUMENT.size : at]) != plain:
            raise ValueError("its document has a length that makes no sense")
        text = zstandard.decompress(body[_DOCUMENT.size : at], max_output_size=plain)
        document = msgspec.msgpack.decode(text, type=Document)
        count = sum(stream.pieces for stream in document.streams)
        if len(body) != at + count * 36:
            raise ValueError("its table does not fit its size")
        lengths = np.frombuffer(body[at : at + 4 * count], "<u4")
        contents = Contents(
            head=_head(backend, name, data),
            document=document,
            lengths=lengths,
            ids=np.frombuffer(body[at + 4 * count :], "<u8").reshape(-1, 4),
        )
        _check(contents)
    except (ValueError, struct.error, msgspec.MsgspecError, zstandard.ZstdError) as error:
        raise sealed.damaged(backend, name, str(error)) from error
    return contents


def _head(backend: Backend, name: str, data: Any) -> ImageHead:
    try:
        head = msgspec.convert(data, ImageHead)
        # It becomes the name of a folder where the image is brought back.
        check_name(head.name)
        return head
    except (msgspec.ValidationError, UsageError) as error:
        raise sealed.damaged(backend, name, f"its head makes no sense ({error})") from error


def _check(contents: Contents) -> None:
    """ValueError unless the streams' pieces fill the files, every byte once: what is read back has no holes."""
    document = contents.document
    ranges: dict[int, list[tuple[int, int]]] = {}
    at = 0
    for stream in document.streams:
        size = int(contents.lengths[at : at + stream.pieces].sum(dtype=np.int64))
        at += stream.pieces
        if size != sum(length for _, _, length in stream.extents):
            raise ValueError(f"the pieces of {stream.label} do not add up to its size")
        for file, offset, length in stream.extents:
            ranges.setdefault(file, []).append((offset, offset + length))
    for number, entry in enumerate(document.files):
        end = 0
        for start, stop in sorted(ranges.pop(number, [])):
            if start != end or stop <= start:
                raise ValueError(f"{entry.path} is not covered by its pieces")
            end = stop
        if end != entry.size:
            raise ValueError(f"{entry.path} is not covered by its pieces")
    if ranges:
        raise ValueError("it has pieces of files that it does not have")


def missing(backend: Backend, contents: Contents, count: int) -> TorporError:
    """The error for an image some of whose chunks the store does not have."""
    return sealed.damaged(
        backend,
        f"image {contents.head.name}",
        f"{count} of its chunks are not in the index",
        "`torpor verify --repair-index` finds chunks again that are in packs",
    )
