"""The bytes of a job that is suspended in `dram`, on their way into an image, without the GPU."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from torpor.image import hashing
from torpor.image.manifest import FileEntry, ProcessEntry, segment_name
from torpor.keeper.moves import background
from torpor.keeper.pool import Pool
from torpor.keeper.report import Report
from torpor.keeper.rollback import step
from torpor.keeper.segments import write_file
from torpor.keeper.suspended import Layout
from torpor.keeper.transfer import THREADS_PER_GPU


class Carry:
    """Brings the segments in `source` into the image being made in `target`, from `start` on in the background.

    `in_memory`: on the pool's own file system a segment is linked, so that suspended job and image share its memory
    until one of them goes. Nobody writes to a segment that is kept. Elsewhere it is written and hashed, without what
    lies behind its last block: that is of somebody else's earlier use.
    """

    def __init__(self, pool: Pool, layout: Layout, source: Path, target: Path, *, in_memory: bool) -> None:
        self.names: Mapping[str, Sequence[bytes]] = {}
        self._pool = pool
        self._layout = layout
        self._source = source
        self._target = target
        self._one = self._link if in_memory else self._write
        self._entries: dict[str, FileEntry] = {}
        self._stop = threading.Event()
        self._future: Future[None] | None = None

    @property
    def entries(self) -> dict[str, FileEntry]:
        """The segments brought so far, by path."""
        return dict(self._entries)

    def start(self, report: Report) -> None:
        self._future = background("carry", lambda: self._bring(report))

    def finish(self) -> None:
        """Wait for the end; raises what went wrong."""
        if self._future is not None:
            self._future.result()

    def stop(self) -> None:
        """Begin nothing further and wait until everything is at rest, whatever came of it."""
        self._stop.set()
        if self._future is not None:
            self._future.exception()

    def describe(self) -> list[ProcessEntry]:
        """The processes as a manifest lists them."""
        return self._layout.processes

    def _bring(self, report: Report) -> None:
        lengths = used(self._layout.processes)
        if not lengths:
            return
        with step("copy"), report.phase("copy", sum(lengths.values())) as phase:

            def bring(entry: FileEntry) -> None:
                if not self._stop.is_set():
                    self._one(entry, lengths[entry.path], phase.move)

            with ThreadPoolExecutor(max_workers=THREADS_PER_GPU) as workers:
                done = [workers.submit(bring, entry) for entry in self._layout.files]
                try:
                    for one in done:
                        one.result()
                except BaseException:
                    self._stop.set()
                    raise

    def _link(self, entry: FileEntry, length: int, on_bytes: Callable[[int], None]) -> None:
        os.link(self._source / entry.path, self._target / entry.path)
        self._entries[entry.path] = entry
        on_bytes(length)

    def _write(self, entry: FileEntry, length: int, on_bytes: Callable[[int], None]) -> None:
        with self._pool.borrow(self._source / entry.path) as segment:
            data = segment.view(length)
            digest = hashing.of_bytes(data)
            write_file(self._target / entry.path, data)
        self._entries[entry.path] = FileEntry(path=entry.path, size=length, hash=digest)
        on_bytes(length)


def used(processes: list[ProcessEntry]) -> dict[str, int]:
    """How many bytes of each segment belong to blocks, by the segment's path."""
    lengths: dict[str, int] = {}
    for process in processes:
        for block in process.blocks:
            for segment, offset, length in block.extents:
                name = segment_name(segment)
                lengths[name] = max(lengths.get(name, 0), offset + length)
    return lengths
