"""How the files of an image are cut into chunks, so that what did not change is cut the same way again.

A *stream* is a sequence of bytes that belong together, wherever in the files they lie: a block of device memory, a
file of CRIU's pages, or any other file. Blocks are cut from their start, page files where the addresses of their
pages cross a multiple of the chunk's size, so that a page that comes or goes changes one chunk only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from torpor.errors import TorporError
from torpor.image.manifest import Manifest, segment_name
from torpor.process.criu_images import entries, number

Kind = Literal["block", "pages", "file"]
Extent = tuple[int, int, int]
"""File (its number in the list of files), offset in it, length in bytes."""

_PAGE = 4096
_PAGEMAP = 0x56084025
_PRESENT = 1 << 2
_SEGMENT = re.compile(r"gpu/(\d{4,})\.seg")
_FLAGS = 4


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

    A block's label is `<pid>/<address>`, any other's its path. What is not understood is cut like any other file.
    """
    numbers = {path: number for number, path in enumerate(sizes)}
    found = list(_blocks(manifest, numbers, chunk))
    covered: dict[int, list[tuple[int, int]]] = {}
    for stream in found:
        for file, offset, length in stream.extents:
            covered.setdefault(file, []).append((offset, offset + length))
    pagemaps = _pagemaps(folder / "cpu")
    for path, size in sizes.items():
        file = numbers[path]
        if file in covered:
            found += [
                Stream(f"{path}+{start}", "file", [(file, start, end - start)], _even(end - start, chunk))
                for start, end in _gaps(covered[file], size)
            ]
        elif size:
            runs = pagemaps.get(path)
            cuts = _by_address(runs, chunk) if runs is not None else []
            if sum(cuts) == size:
                found.append(Stream(path, "pages", [(file, 0, size)], cuts))
            else:
                found.append(Stream(path, "file", [(file, 0, size)], _even(size, chunk)))
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


def _pagemaps(folder: Path) -> dict[str, list[tuple[int, int]]]:
    """For each page file (path in the image) the runs of pages in it: address and bytes."""
    found = {}
    for pagemap in sorted(folder.glob("pagemap-*.img")):
        try:
            head, *runs = entries(pagemap, _PAGEMAP)
        except (TorporError, ValueError, IndexError):
            continue  # its pages are cut like any other file then
        found[f"cpu/pages-{number(head, 1)}.img"] = [
            (number(run, 1), (number(run, 5) or number(run, 2)) * _PAGE)
            for run in runs
            if _FLAGS not in run or number(run, _FLAGS) & _PRESENT
        ]
    return found


def _by_address(runs: list[tuple[int, int]], chunk: int) -> list[int]:
    """Lengths of what lies in each window of `chunk` bytes of the address space, in the order of the runs."""
    cuts: list[int] = []
    window = -1
    for address, length in runs:
        at, end = address, address + length
        while at < end:
            stop = min(end, (at // chunk + 1) * chunk)
            if at // chunk == window:
                cuts[-1] += stop - at
            else:
                window = at // chunk
                cuts.append(stop - at)
            at = stop
    return cuts
