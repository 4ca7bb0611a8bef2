"""New chunks on their way into a store: into packs, the packs into the store, and then into index files.

Memory is bounded: a pack that is being filled, and those that are being written, at most WRITERS.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from torpor.errors import TorporError
from torpor.store import index
from torpor.store.backend import Backend
from torpor.store.index import Index, ids_of
from torpor.store.pack import PACK, Chunk, Entries, Pack, PackBuilder, gathered

_FEW = 3
"""Packs being written at a time to a place that takes several parts of each at once."""

WRITERS = max(_FEW, min(8, len(os.sched_getaffinity(0)) // 2))
"""Elsewhere: where packs lie in memory, the kernel's work for fresh pages is half of all that a put costs."""

INDEX_EVERY = 32
"""Packs after which an index file is written, so that a long write that is cut short need not be done all again."""


@dataclass
class _Filling:
    """A pack that chunks are being copied into; `fills` is how many copies are under way."""

    builder: PackBuilder
    fills: int = 0


class StoreWriter:
    """Takes chunks from any number of threads. `known` are those that the store has.

    `on_written` is told bytes and seconds of what the store has taken, all packs together.
    """

    def __init__(
        self,
        backend: Backend,
        known: Index,
        *,
        on_written: Callable[[int, float], None] | None = None,
        pack_size: int = PACK,
    ) -> None:
        self._backend = backend
        self.gathers = backend.gathers
        """Whether chunks that fill half a pack or more become one where they are: nothing is gained by giving fewer."""
        self._known = known
        self._on_written = on_written
        self._pack_size = min(pack_size, PACK)
        self._claimed: set[bytes] = set()
        self._changed = threading.Condition()
        self._memory: list[NDArray[np.uint8]] = []
        self._filling: _Filling | None = self._empty()
        self._writers = WRITERS if backend.readers == 1 else _FEW
        self._threads = ThreadPoolExecutor(self._writers, "store-write")
        self._written: dict[str, tuple[int, Entries]] = {}
        self._sent = 0
        self._busy = 0
        self._store_failed = False
        self._given_up = False
        self.failed: BaseException | None = None
        self.objects: set[str] = set()
        """Names of the packs and index files that it wrote. Their contents name them, so they may have been there."""
        self.new_chunks = 0
        self.new_bytes = 0
        self.stored_bytes = 0

    def claim(self, digests: Sequence[bytes]) -> list[bool]:
        """Which of these chunks the caller has to bring; what it is told once, nobody is told again."""
        rows = self._known.find(ids_of(digests)).tolist() if digests else []
        with self._changed:
            wanted = []
            for digest, row in zip(digests, rows, strict=True):
                new = row < 0 and digest not in self._claimed
                if new:
                    self._claimed.add(digest)
                wanted.append(new)
        return wanted

    def disclaim(self, digests: Iterable[bytes]) -> None:
        """Chunks that were claimed and will not be added by whoever claimed them: they can be claimed again."""
        with self._changed:
            self._claimed.difference_update(digests)

    def add(self, chunk: Chunk) -> None:
        """Take a chunk, as `add_all` does several."""
        self.add_all([chunk])

    def add_all(self, chunks: Sequence[Chunk]) -> None:
        """Take chunks that were claimed; their data are free again when this returns.

        Waits while enough packs are being written; raises what one of them raised.
        """
        try:
            while chunks:
                few, size = _first(chunks, self._pack_size)
                if self.gathers and size >= self._pack_size // 2:
                    self._gather(few)
                else:
                    few = self._add_some(few)
                chunks = chunks[len(few) :]
        except BaseException as error:
            # Others may wait for what this thread has begun: a pack with its chunks in it, or an empty one.
            with self._changed:
                self.failed = self.failed or error
                self._changed.notify_all()
            raise

    def _gather(self, chunks: Sequence[Chunk]) -> None:
        """Write a pack of these chunks from where they are, in this thread."""
        with self._changed:
            if self.failed is not None:
                raise self.failed
            self._sent += 1
            self._count(chunks)
        self._write(partial(gathered, chunks))
        if self.failed is not None:
            raise self.failed

    def _add_some(self, chunks: Sequence[Chunk]) -> Sequence[Chunk]:
        """Take as many of these chunks, at least one, as fit into the pack that is being filled; returns those."""
        with self._changed:
            while self._filling is None and self.failed is None:
                self._changed.wait()
            if self.failed is not None:
                raise self.failed
            assert self._filling is not None
            filling = self._filling
            few, _size = _first(chunks, self._pack_size - filling.builder.size)
            places = [filling.builder.reserve(chunk) for chunk in few]
            self._count(few)
            filling.fills += 1
            full = filling.builder.size >= self._pack_size
            if full:
                self._filling = None
        if full:
            # Before this thread's own copies: others wait for a pack to fill.
            self._send(filling)
            with self._changed:
                self._filling = self._empty()
                self._changed.notify_all()
        for at, chunk in zip(places, few, strict=True):
            filling.builder.fill(at, chunk)
        with self._changed:
            filling.fills -= 1
            if not filling.fills:
                self._changed.notify_all()
        return few

    def _count(self, chunks: Sequence[Chunk]) -> None:
        self.new_chunks += len(chunks)
        self.new_bytes += sum(chunk.length for chunk in chunks)

    def finish(self) -> None:
        """Bring all that was added into the store; durable, index included, when this returns."""
        if self._filling is not None and not self._filling.builder.is_empty:
            self._send(self._filling)
        self._filling = None
        with self._changed:
            while self._sent and self.failed is None:
                self._changed.wait()
            if self.failed is not None:
                raise self.failed
        self._threads.shutdown(wait=True)
        self._write_index()

    def give_up(self, reason: BaseException) -> None:
        """Let whoever brings chunks, or waits in `finish`, hear of `reason` at once: nobody wants them any more.

        Nor does `abandon` wait for what is on its way to the store: that has no effect on anything.
        """
        with self._changed:
            self._given_up = True
            self.failed = self.failed or reason
            self._changed.notify_all()

    def abandon(self) -> None:
        """Write nothing more but the index of what was written: it stays behind until a prune, and is not written again
        by who tries the same once more."""
        self._threads.shutdown(wait=not self._given_up, cancel_futures=True)
        if not self._store_failed:
            with suppress(TorporError):
                self._write_index()

    def _empty(self) -> _Filling:
        return _Filling(PackBuilder(self._memory.pop() if self._memory else None))

    def _send(self, filling: _Filling) -> None:
        with self._changed:
            while self._sent >= self._writers and self.failed is None:
                self._changed.wait()
            if self.failed is not None:
                raise self.failed
            self._sent += 1
        self._threads.submit(self._write, partial(self._filled, filling), filling.builder.memory)

    def _filled(self, filling: _Filling) -> Pack | None:
        """The pack, once all is in it; None when something failed, as then something may never come."""
        with self._changed:
            while filling.fills and self.failed is None:
                self._changed.wait()
            if self.failed is not None:
                return None
        return filling.builder.finish()

    def _write(self, make: Callable[[], Pack | None], memory: NDArray[np.uint8] | None = None) -> None:
        try:
            pack = make()
            with self._changed:
                if pack is None or self.failed is not None:
                    return
                self._busy += 1
                busy = self._busy
            start = time.perf_counter()
            self._backend.write(f"packs/{pack.name}", pack.parts)
            seconds = time.perf_counter() - start
            with self._changed:
                self._busy -= 1
                if memory is not None:
                    self._memory.append(memory)
                self._written[pack.name] = (pack.size, pack.entries)
                self.objects.add(f"packs/{pack.name}")
                self.stored_bytes += pack.size
                due = len(self._written) >= INDEX_EVERY
            if self._on_written is not None:
                self._on_written(pack.size, seconds / busy)
            if due:
                self._write_index()
        except BaseException as error:  # noqa: BLE001 - raised by whoever brings more, or finishes
            with self._changed:
                self._store_failed = True
                self.failed = self.failed or error
        finally:
            with self._changed:
                self._sent -= 1
                self._changed.notify_all()

    def _write_index(self) -> None:
        with self._changed:
            packs, self._written = self._written, {}
        if packs:
            name = index.write(self._backend, packs)
            with self._changed:
                self.objects.add(f"index/{name}")


def _first(chunks: Sequence[Chunk], room: int) -> tuple[Sequence[Chunk], int]:
    """The first of these chunks that take so many bytes together, or more, and how many these are; else all."""
    size = 0
    for count, chunk in enumerate(chunks, start=1):
        size += len(chunk.data)
        if size >= room:
            return chunks[:count], size
    return chunks, size
