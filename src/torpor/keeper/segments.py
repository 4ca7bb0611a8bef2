"""Segments' two ways: out of rows into files, and out of files into rows, through pinned memory.

Where the image lies on the pool's own file system (the `dram` tier) the pinned memory *is* the file: the way out
renames it, the way in copies straight from it. Elsewhere the bytes are written and read with O_DIRECT where the file
system and the length allow it, and hashed on the way.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from torpor import direct_io
from torpor.driver.copies import Stream
from torpor.driver.devices import Driver
from torpor.errors import ImageDamaged
from torpor.image import hashing
from torpor.image.manifest import SEGMENT, FileEntry, segment_name
from torpor.image.reader import check_hash
from torpor.keeper import transfer
from torpor.keeper.memory import MappedRow
from torpor.keeper.placement import Piece
from torpor.keeper.pool import Pool, Segment
from torpor.keeper.transfer import Moved

Rows = Mapping[str, MappedRow]
"""Rows by the UUID that their pieces name."""


@dataclass
class Saver:
    """Brings pieces of rows into `folder` (an image's), one file each. `entries` grows as files are complete."""

    driver: Driver
    pool: Pool
    folder: Path
    in_memory: bool
    entries: dict[str, FileEntry] = field(default_factory=dict)
    stop: threading.Event = field(default_factory=threading.Event)

    def save(self, rows: Rows, pieces: list[Piece], on_bytes: Callable[[int], None]) -> Moved:
        """Save every piece; raises the first failure, or returns early when `stop` is set."""
        one = self._keep if self.in_memory else self._write
        work = [(rows[p.uuid].device.ordinal, _bind(one, rows[p.uuid], p)) for p in pieces]
        return transfer.run(self.driver, work, on_bytes, self.stop)

    def _keep(self, stream: Stream, row: MappedRow, piece: Piece) -> int:
        segment = self.pool.acquire(to_keep=True)
        try:
            stream.to_host(segment.address, row.base + piece.at, piece.length)
            stream.wait()
            name = segment_name(piece.segment)
            sample = hashing.sample_of_bytes(segment.view())
            self.pool.take(segment, self.folder / name)
            # Writing through a mapping leaves a file's time alone, so it may be that of any use before this one.
            modified = time.time_ns()
            os.utime(self.folder / name, ns=(modified, modified))
        except BaseException:
            self.pool.release(segment)
            raise
        self.entries[name] = FileEntry(path=name, size=SEGMENT, sample=sample, modified=modified)
        return piece.length

    def _write(self, stream: Stream, row: MappedRow, piece: Piece) -> int:
        segment = self.pool.acquire(to_keep=False)
        try:
            stream.to_host(segment.address, row.base + piece.at, piece.length)
            stream.wait()
            data = segment.view(piece.length)
            name = segment_name(piece.segment)
            digest = hashing.of_bytes(data)
            write_file(self.folder / name, data)
        finally:
            self.pool.release(segment)
        self.entries[name] = FileEntry(path=name, size=piece.length, hash=digest)
        return piece.length


@dataclass
class Filler:
    """Brings an image's segments into rows. `files` are its entries by path, `assembled` the copies by segment.

    `hashing` where the threads that load segments have to hash them, and wait for nothing else.
    """

    driver: Driver
    pool: Pool
    image: Path
    files: Mapping[str, FileEntry]
    stop: threading.Event = field(default_factory=threading.Event)
    hashing: bool = False

    def in_memory(self) -> bool:
        """Whether the segments can be borrowed as they are: on the pool's file system, and full."""
        own = self.pool.folder.stat().st_dev
        segments = [entry for path, entry in self.files.items() if path.startswith("gpu/")]
        return all(e.size == SEGMENT and (self.image / e.path).stat().st_dev == own for e in segments)

    def fill(self, rows: Rows, assembled: Mapping[int, list[Piece]], on_bytes: Callable[[int], None]) -> Moved:
        """Fill the rows; a segment whose hash is wrong never reaches a row: ImageDamaged."""
        one = self._borrow if self.in_memory() else self._read
        work = []
        for index, pieces in assembled.items():
            for uuid in dict.fromkeys(piece.uuid for piece in pieces):
                mine = [piece for piece in pieces if piece.uuid == uuid]
                work.append((rows[uuid].device.ordinal, _bind(one, rows[uuid], index, mine)))
        return transfer.run(self.driver, work, on_bytes, self.stop, hashing=self.hashing)

    def _borrow(self, stream: Stream, row: MappedRow, index: int, pieces: list[Piece]) -> int:
        entry = self.files[segment_name(index)]
        with self.pool.borrow(self.image / entry.path) as segment:
            if entry.hash is not None:
                check_hash(self.image, entry, hashing.of_bytes(segment.view(entry.size)))
            return _copy_in(stream, row, segment, pieces)

    def _read(self, stream: Stream, row: MappedRow, index: int, pieces: list[Piece]) -> int:
        entry = self.files[segment_name(index)]
        if entry.size > SEGMENT:
            raise ImageDamaged(f"{entry.path} of image {self.image} is larger than segments are")
        segment = self.pool.acquire(to_keep=False)
        try:
            self._load(entry, segment.view(entry.size))
            return _copy_in(stream, row, segment, pieces)
        finally:
            self.pool.release(segment)

    def _load(self, entry: FileEntry, data: memoryview) -> None:
        """Fill `data` with a segment's bytes, checked."""
        _read_file(self.image / entry.path, data)
        if entry.hash is not None:
            check_hash(self.image, entry, hashing.of_bytes(data))


def _copy_in(stream: Stream, row: MappedRow, segment: Segment, pieces: list[Piece]) -> int:
    for piece in pieces:
        stream.to_device(row.base + piece.at, segment.address + piece.offset, piece.length)
    stream.wait()
    return sum(piece.length for piece in pieces)


def _bind(action: Callable[..., int], *arguments: object) -> transfer.Work:
    return lambda stream: action(stream, *arguments)


def write_file(path: Path, data: memoryview) -> None:
    descriptor = direct_io.opened(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, len(data))
    try:
        at = 0
        while at < len(data):
            at += os.pwrite(descriptor, data[at : at + direct_io.PIECE], at)
        os.fsync(descriptor)
    except OSError as error:
        error.filename = str(path)
        raise
    finally:
        os.close(descriptor)


def _read_file(path: Path, data: memoryview) -> None:
    descriptor = direct_io.opened(path, os.O_RDONLY, len(data))
    try:
        at = 0
        while at < len(data):
            count = os.preadv(descriptor, [data[at : at + direct_io.PIECE]], at)
            if count == 0:
                raise ImageDamaged(f"{path} ended after {at} of {len(data)} bytes", hint="restore another image")
            at += count
    finally:
        os.close(descriptor)
