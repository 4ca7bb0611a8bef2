"""A job's pinned host memory on its way into an image, while CRIU holds the job still."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from torpor import direct_io
from torpor.image import hashing
from torpor.image.manifest import SEGMENT, FileEntry
from torpor.keeper import hostmem
from torpor.keeper.moves import background
from torpor.process import pinned
from torpor.process.pinned import FOLDER, PinnedFile, Saved

_THREADS = 8
_ZEROS_AT_ONCE = 256 << 10
"""Bytes that are left out together where all of them are zero."""

Piece = tuple[str, PinnedFile, int, int]
"""Path in the image, the file that it is of, and offset and length there."""


class PinnedOut:
    """The bytes of a job's pinned files, on their way into the folder of an image. `entries` grows as pieces are
    complete; with `in_place` nothing moves, and the image's files only lead to the job's, as long as it stands still.
    """

    def __init__(self, image: Path, *, hashed: bool, in_place: bool) -> None:
        self.entries: dict[str, FileEntry] = {}
        self._image = image
        self._hashed = hashed
        self._in_place = in_place
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._future: Future[None] | None = None
        self._saved: list[Saved] = []
        self._pieces: list[Piece] = []

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self._saved)

    def start(self, files: Sequence[PinnedFile]) -> None:
        """Once the job stands still."""
        for file in files:
            cut = list(self._cut(file))
            self._saved.append(Saved(file.key, file.size, file.mode, [(Path(path).name, n) for path, _, _, n in cut]))
            self._pieces += cut
        self._future = background("pinned out", self._run)

    def finish(self) -> None:
        """Wait for the end; raises OSError."""
        if self._future is not None:
            self._future.result()

    def stop(self) -> None:
        """Begin nothing further and wait until everything is at rest, whatever came of it."""
        self._stopping.set()
        if self._future is not None:
            self._future.exception()

    def _run(self) -> None:
        if not self._saved:
            return
        (self._image / FOLDER).mkdir(mode=0o700)
        pinned.write_index(self._image, self._saved)
        if self._in_place:
            for path, file, _at, _length in self._pieces:
                (self._image / path).symlink_to(file.path)
            return
        threads = min(_THREADS, len(os.sched_getaffinity(0)))
        with ThreadPoolExecutor(threads, "pinned-out") as workers:
            list(workers.map(self._save, self._pieces))

    def _cut(self, file: PinnedFile) -> Iterator[Piece]:
        length = file.size if self._in_place else SEGMENT
        for number, at in enumerate(range(0, file.size, length), len(self._pieces)):
            yield f"{FOLDER}/{number:04d}", file, at, min(length, file.size - at)

    def _save(self, piece: Piece) -> None:
        if self._stopping.is_set():
            return
        path, file, at, length = piece
        descriptor = os.open(file.path, os.O_RDWR | os.O_CLOEXEC)
        try:
            address = hostmem.map_shared(descriptor, length, at)
        finally:
            os.close(descriptor)
        try:
            hostmem.populate_read(address, length)
            _write(self._image / path, address, length, direct=self._hashed)
            data = hostmem.view(address, length)
            if self._hashed:
                entry = FileEntry(path=path, size=length, hash=hashing.of_bytes(data))
            else:
                modified = time.time_ns()
                os.utime(self._image / path, ns=(modified, modified))
                entry = FileEntry(path=path, size=length, sample=hashing.sample_of_bytes(data), modified=modified)
            del data
        finally:
            hostmem.unmap(address, length)
        with self._lock:
            self.entries[path] = entry


def _write(path: Path, address: int, length: int, *, direct: bool) -> None:
    """Write these bytes into a new file; zeros are left out."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    descriptor = direct_io.opened(path, flags, length) if direct else os.open(path, flags, 0o600)
    try:
        os.ftruncate(descriptor, length)
        data = hostmem.view(address, length)
        for start, stop in _runs(address, length):
            at = start
            while at < stop:
                at += os.pwrite(descriptor, data[at : min(at + direct_io.PIECE, stop)], at)
        if direct:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _runs(address: int, length: int) -> Iterator[tuple[int, int]]:
    """Where there is anything but zeros."""
    start = None
    for at in range(0, length, _ZEROS_AT_ONCE):
        zero = hostmem.is_zero(address + at, min(_ZEROS_AT_ONCE, length - at))
        if zero and start is not None:
            yield start, at
            start = None
        elif not zero and start is None:
            start = at
    if start is not None:
        yield start, length
