"""Reading an image in a folder: the names of all its chunks and, where somebody takes them, the chunks themselves."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from blake3 import blake3

from torpor.errors import ImageDamaged
from torpor.image.manifest import Manifest
from torpor.store import plan

BATCH = 8 << 20
"""Bytes that one thread reads, hashes and encodes at a time, unless told otherwise."""

OnBytes = Callable[[int], None]


class Piece(NamedTuple):
    """A chunk's place in the image: its number among all pieces, and its length in bytes."""

    number: int
    length: int


@dataclass
class _Batch:
    pieces: list[Piece]
    reads: list[plan.Extent]


class Scan:
    """Names of all chunks of an image in a folder, and for a put, the chunks themselves.

    `known` has the names of the chunks of some blocks, by their streams' labels: those are not read, and the segments
    that only they are in need not be there.
    """

    def __init__(
        self, folder: Path, manifest: Manifest, chunk: int, known: Mapping[str, Sequence[bytes]] | None = None
    ) -> None:
        self.folder = folder
        self.sizes = plan.used_sizes(manifest)
        self.paths = list(self.sizes)
        self.streams = plan.streams(folder, manifest, self.sizes, chunk)
        self.lengths = np.array([length for stream in self.streams for length in stream.cuts], np.uint32)
        self.digests = np.zeros((len(self.lengths), 32), np.uint8)
        self.chunk = chunk
        self._own = threading.local()
        self._known = known or {}
        self._take_known()

    def run(
        self,
        threads: int,
        take: Callable[[list[bytes], list[memoryview]], None],
        on_bytes: OnBytes,
        *,
        batch: int = BATCH,
    ) -> None:
        """Read everything in `threads` threads, each so many bytes at a time.

        `take` gets the names and bytes of some chunks; zeros are left out.
        """
        with ThreadPoolExecutor(threads, "store-read") as workers:
            pending: deque[Future[int]] = deque()
            try:
                for one in self._batches(batch):
                    pending.append(workers.submit(self._read, one, batch + self.chunk, take))
                    if len(pending) > 2 * threads:
                        on_bytes(pending.popleft().result())
                while pending:
                    on_bytes(pending.popleft().result())
            except BaseException:
                workers.shutdown(cancel_futures=True)
                raise

    def to_read(self) -> int:
        """Bytes that `run` reads."""
        return sum(stream.size for stream in self.streams if stream.label not in self._known)

    def _take_known(self) -> None:
        number = 0
        for stream in self.streams:
            count = len(stream.cuts)
            given = self._known.get(stream.label)
            if given is not None:
                if len(given) != count:
                    raise ValueError(f"block {stream.label} has {count} chunks, not {len(given)}")
                names = np.frombuffer(b"".join(given), np.uint8).reshape(-1, 32).copy()
                zero = [digest == zeros(length) for digest, length in zip(given, stream.cuts, strict=True)]
                names[np.array(zero, np.bool_)] = 0
                self.digests[number : number + count] = names
            number += count

    def _batches(self, most: int) -> Iterator[_Batch]:
        number = 0
        for stream in self.streams:
            if stream.label in self._known:
                number += len(stream.cuts)
                continue
            rest = list(reversed(stream.extents))
            batch, size = _Batch([], []), 0
            for length in stream.cuts:
                batch.pieces.append(Piece(number, length))
                batch.reads += _taken(rest, length)
                number += 1
                size += length
                if size >= most:
                    yield batch
                    batch, size = _Batch([], []), 0
            if batch.pieces:
                yield batch

    def _read(self, batch: _Batch, room: int, take: Callable[[list[bytes], list[memoryview]], None]) -> int:
        size = sum(piece.length for piece in batch.pieces)
        buffer = getattr(self._own, "buffer", None)
        if buffer is None or len(buffer) < size:
            buffer = self._own.buffer = np.empty(max(size, room), np.uint8).data
        view = buffer[:size]
        at = 0
        for file, offset, length in batch.reads:
            self._fill(self.paths[file], offset, view[at : at + length])
            at += length
        digests: list[bytes] = []
        chunks: list[memoryview] = []
        at = 0
        for piece in batch.pieces:
            data = view[at : at + piece.length]
            at += piece.length
            digest = blake3(data).digest()
            if digest != zeros(piece.length):
                self.digests[piece.number] = np.frombuffer(digest, np.uint8)
                digests.append(digest)
                chunks.append(data)
        take(digests, chunks)
        return size

    def _fill(self, path: str, offset: int, view: memoryview) -> None:
        descriptor = os.open(self.folder / path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            at = 0
            while at < len(view):
                count = os.preadv(descriptor, [view[at:]], offset + at)
                if not count:
                    raise ImageDamaged(f"{path} of image {self.folder} is shorter than its manifest says")
                at += count
        finally:
            os.close(descriptor)


def thread_count() -> int:
    """Threads that read, hash and encode: one per processor, and one more that waits for the disk."""
    return min(16, len(os.sched_getaffinity(0)) + 1)


_ZEROS: dict[int, bytes] = {}


def zeros(length: int) -> bytes:
    """The BLAKE3 of so many zero bytes."""
    found = _ZEROS.get(length)
    if found is None:
        found = _ZEROS[length] = blake3(bytes(length)).digest()
    return found


def _taken(rest: list[plan.Extent], length: int) -> Iterator[plan.Extent]:
    """The next `length` bytes of extents (in reverse order), which lose them."""
    while length:
        file, offset, size = rest.pop()
        part = min(size, length)
        yield file, offset, part
        length -= part
        if part < size:
            rest.append((file, offset + part, size - part))
