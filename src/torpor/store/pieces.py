"""Where an image's bytes lie in a store: which chunk, and which part of it, each part of each of its files is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from torpor.store import chunks, contents, sealed
from torpor.store.backend import copy
from torpor.store.contents import Contents
from torpor.store.index import Index
from torpor.store.repository import Repository


class Target(NamedTuple):
    """Part of a chunk, and where it belongs: `row` of the index (-1: zeros), offset in `file`, offset in the chunk."""

    row: int
    file: int
    offset: int
    start: int
    length: int


def rows_of(repository: Repository, found: Contents, index: Index) -> NDArray[np.int64]:
    """For each piece its row in the index, -1 for zeros. Raises ImageDamaged when the index lacks a chunk."""
    rows = index.find(found.ids)
    absent = (rows < 0) & found.ids.any(axis=1)
    if absent.any():
        raise contents.missing(repository.backend, found, int(absent.sum()))
    wrong = (rows >= 0) & (index.rows["length"][rows] != found.lengths) if len(index) else np.zeros(len(rows), bool)
    if wrong.any():
        raise sealed.damaged(
            repository.backend, f"image {found.head.name}", "a chunk has another length than in the index"
        )
    return rows


class Pieces:
    """An image's files as parts of chunks. Threads share it; the store is locked for as long as it is used.

    A context manager: leaving it ends the threads that read what `read_into` asks for, where the place serves several
    reads at once.
    """

    def __init__(self, repository: Repository, found: Contents) -> None:
        """Raises ImageDamaged when the store lacks a chunk that the image has."""
        self.found = found
        self._backend = repository.backend
        self._index = repository.load_index()
        self._by_file: list[list[Target]] = [[] for _ in found.document.files]
        for target in _targets(found, rows_of(repository, found, self._index)):
            self._by_file[target.file].append(target)
        readers = self._backend.readers
        self._workers = ThreadPoolExecutor(readers, "store-get") if readers > 1 else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._workers is not None:
            self._workers.shutdown(cancel_futures=True)

    @property
    def by_callers(self) -> bool:
        """Whether who calls `read_into` reads and checks, not threads of this."""
        return self._workers is None

    def of_file(self, file: int) -> list[Target]:
        """The parts of a file, by its number in the document."""
        return self._by_file[file]

    def read_all(self, targets: list[Target], write: Callable[[Target, memoryview], None], threads: int) -> None:
        """Give `write` every target's bytes, zeros left out, once their chunk has been checked, in several threads."""
        wanted = _by_row(targets)
        rows = np.array(sorted(wanted), np.int64)
        chunks.read_all(self._backend, self._index, rows, _use(wanted, write), threads)

    def read_into(self, file: int, memory: memoryview) -> None:
        """Fill `memory` with a file's first bytes, every chunk checked before and without the GIL.

        Raises ImageDamaged, which names chunk, pack and offset; the memory may then have anything in it.
        """
        room = np.frombuffer(memory, np.uint8)
        targets = [target for target in self._by_file[file] if target.offset + target.length <= len(room)]
        for target in targets:
            if target.row < 0:
                room[target.offset : target.offset + target.length] = 0

        def write(target: Target, data: memoryview) -> None:
            copy(data, memory[target.offset : target.offset + target.length])

        wanted = _by_row(targets)
        rows = np.array(sorted(wanted), np.int64)
        rooms = self._rooms(rows, wanted, memory)
        chunks.read_here(self._backend, self._index, rows, _use(wanted, write), rooms, self._workers)

    def _rooms(self, rows: NDArray[np.int64], wanted: dict[int, list[Target]], memory: memoryview) -> chunks.Rooms:
        """For each chunk a place where all of it is wanted, which goes out of `wanted`; some have none."""
        rooms = {}
        for row, length in zip(rows.tolist(), self._index.rows["length"][rows].tolist(), strict=True):
            whole = next((target for target in wanted[row] if target.length == length), None)
            if whole is not None:
                wanted[row].remove(whole)
                rooms[row] = memory[whole.offset : whole.offset + length]
        return rooms


def _by_row(targets: list[Target]) -> dict[int, list[Target]]:
    found: dict[int, list[Target]] = {}
    for target in targets:
        if target.row >= 0:
            found.setdefault(target.row, []).append(target)
    return found


def _use(wanted: dict[int, list[Target]], write: Callable[[Target, memoryview], None]) -> chunks.Use:
    def use(row: int, data: bytes | memoryview) -> None:
        view = memoryview(data)
        for target in wanted[row]:
            write(target, view[target.start : target.start + target.length])

    return use


def _targets(found: Contents, rows: NDArray[np.int64]) -> Iterator[Target]:
    """Every piece's parts, in order."""
    pieces = zip(found.lengths.tolist(), rows.tolist(), strict=True)
    for stream in found.document.streams:
        extents = iter(stream.extents)
        file = offset = left = 0
        for _ in range(stream.pieces):
            (size, row), at = next(pieces), 0
            while at < size:
                if not left:
                    file, offset, left = next(extents)
                part = min(left, size - at)
                yield Target(row, file, offset, at, part)
                at, offset, left = at + part, offset + part, left - part
