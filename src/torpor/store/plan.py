"""How the files of an image are cut into chunks, so that what did not change is cut the same way again.

A *stream* is a sequence of bytes that belong together, wherever in the files they lie: a block of device memory, a
file of CRIU's pages, or any other file. Blocks are cut from their start, page files behind pages that their contents
choose, so that pages that come or go change the chunks around them only, and that processes of one program are cut
alike at whatever addresses they lie.
"""

from __future__ import annotations

import os
import re
import threading
from bisect import bisect_left
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from torpor.image.manifest import Manifest, segment_name

Kind = Literal["block", "pages", "file"]
Extent = tuple[int, int, int]
"""File (its number in the list of files), offset in it, length in bytes."""

_PAGE = 4096
_SEGMENT = re.compile(r"gpu/(\d{4,})\.seg")
_PAGES = re.compile(r"cpu/pages-\d+\.img")

_READ = 1 << 20
"""Bytes of a page file that one thread looks at, at a time."""

_LOOKED_AT = (0, 129, 258, 387)
"""The words (8 bytes each) of a page that say whether a chunk may end with it: one in every quarter."""

_MIX = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Stream:
    """Bytes in order: `extents` of files, cut into chunks of the `cuts` lengths; both add up to the same."""

    label: str
    kind: Kind
    extents: list[Extent]
    cuts: list[int]

    @property
    def size(self) -> int:
        return sum(self.cuts)


def streams(folder: Path, manifest: Manifest, sizes: dict[str, int], chunk: int) -> list[Stream]:
    """Streams that hold every byte of the files (path → bytes of it to keep) exactly once, in an order for reading.

    A block's label is `<pid>/<address>`, any other's its path.
    """
    numbers = {path: number for number, path in enumerate(sizes)}
    found = list(_blocks(manifest, numbers, chunk))
    covered: dict[int, list[tuple[int, int]]] = {}
    for stream in found:
        for file, offset, length in stream.extents:
            covered.setdefault(file, []).append((offset, offset + length))
    for path, size in sizes.items():
        file = numbers[path]
        if file in covered:
            found += [
                Stream(f"{path}+{start}", "file", [(file, start, end - start)], _even(end - start, chunk))
                for start, end in _gaps(covered[file], size)
            ]
        elif size:
            is_pages = _PAGES.fullmatch(path) is not None and size % _PAGE == 0
            cuts = _by_contents(folder / path, size, chunk) if is_pages else _even(size, chunk)
            found.append(Stream(path, "pages" if is_pages else "file", [(file, 0, size)], cuts))
    return found


def block_label(pid: int, address: int) -> str:
    """The label of a block's stream."""
    return f"{pid}/{address:#x}"


def used_sizes(manifest: Manifest) -> dict[str, int]:
    """Bytes of each file that mean something: segments of the `dram` tier are longer than what was written to them."""
    ends: dict[str, int] = {}
    for process in manifest.processes:
        for block in process.blocks:
            for index, offset, length in block.extents:
                name = segment_name(index)
                ends[name] = max(ends.get(name, 0), offset + length)
    return {
        entry.path: ends.get(entry.path, 0) if entry.hash is None and _SEGMENT.fullmatch(entry.path) else entry.size
        for entry in manifest.files
    }


def _blocks(manifest: Manifest, numbers: dict[str, int], chunk: int) -> Iterator[Stream]:
    taken: dict[int, list[tuple[int, int]]] = {}
    for process in manifest.processes:
        for block in process.blocks:
            extents = [(numbers[segment_name(index)], offset, length) for index, offset, length in block.extents]
            ranges = [(file, offset, offset + length) for file, offset, length in extents]
            # Bytes that an earlier block has are that one's; no writer of images makes such, but one must not lose any.
            if any(start < b and a < end for file, start, end in ranges for a, b in taken.get(file, ())):
                continue
            for file, start, end in ranges:
                taken.setdefault(file, []).append((start, end))
            yield Stream(block_label(process.pid, block.address), "block", extents, _even(block.size, chunk))


def _even(size: int, chunk: int) -> list[int]:
    rest = size % chunk
    return [chunk] * (size // chunk) + ([rest] if rest else [])


def _gaps(ranges: list[tuple[int, int]], size: int) -> Iterator[tuple[int, int]]:
    at = 0
    for start, end in sorted(ranges):
        if at < start:
            yield at, start
        at = max(at, end)
    if at < size:
        yield at, size


def _by_contents(file: Path, size: int, chunk: int) -> list[int]:
    """Lengths of a page file's chunks, each of which ends with a page that was chosen, or is as large as they come.

    One page in as many as half a chunk has is chosen, and none before an eighth of one.
    """
    most = chunk // _PAGE
    chosen = _chosen(file, size, most // 2 or 1)
    pages, start, cuts = size // _PAGE, 0, []
    while start < pages:
        at = bisect_left(chosen, start + most // 8)
        end = min(chosen[at] + 1 if at < len(chosen) else pages, start + most, pages)
        cuts.append((end - start) * _PAGE)
        start = end
    return cuts


def _chosen(file: Path, size: int, one_in: int) -> list[int]:
    """The pages, by their numbers, with which a chunk may end; none of zeros. OSError."""
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    own = threading.local()
    try:

        def look(at: int) -> NDArray[np.int64]:
            buffer = getattr(own, "buffer", None)
            if buffer is None:
                buffer = own.buffer = bytearray(_READ)  # one that stays in the processor's cache
            count = os.preadv(descriptor, [memoryview(buffer)[: size - at]], at)
            words = np.frombuffer(buffer, "<u8", count // _PAGE * (_PAGE // 8)).reshape(-1, _PAGE // 8)
            mark = np.zeros(len(words), np.uint64)
            for word in _LOOKED_AT:
                mark ^= words[:, word]
                mark *= _MIX
                mark ^= mark >> np.uint64(29)
            wanted = (mark % np.uint64(one_in) == 0) & (mark != 0)
            return np.flatnonzero(wanted) + at // _PAGE

        with ThreadPoolExecutor(min(8, len(os.sched_getaffinity(0)))) as threads:
            found = list(threads.map(look, range(0, size, _READ)))
    finally:
        os.close(descriptor)
    return [int(page) for part in found for page in part.tolist()]
