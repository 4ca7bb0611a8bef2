"""Leaves pages of zeros out of CRIU's images: memory that reads as zero without them costs nothing to store or restore.

More than half of a PyTorch job's process image is such pages (docs/design/criu.md): buffers that somebody filled with
zeros, and what the driver's checkpoint copied from empty GPU memory. CRIU keeps them, since it cannot tell them from
others without reading them. Only private anonymous memory is treated: there, a page that the image does not mention is
restored as an untouched one, which reads as zeros. Files' pages, shared memory and what a parent image has stay.

CRIU's formats, from its protobuf definitions: `pagemap-<pid>.img` lists runs of pages (address, count, flags) whose
contents follow one another in `pages-<id>.img`; `mm-<pid>.img` lists the mappings.
"""

from __future__ import annotations

import bisect
import os
import struct
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from torpor.errors import TorporError
from torpor.process.criu_images import MAGIC, Fields, entries, fields, number, raw_entries, repeated

PAGE = 4096

_PAGEMAP, _MM = 0x56084025, 0x57492820
_PRESENT = 1 << 2  # of a run: its pages are in the pages file
_REGULAR, _ANON_PRIVATE = 1 << 0, 1 << 9  # of a mapping
_COUNT, _WIDE_COUNT = 2, 5  # fields of a run
_AREAS = 14  # field of the mm image that holds the mappings
_PIECE = 2048  # pages that a thread takes at once
_ZEROS, _SOME_ZEROS = bytes(PAGE), bytes(64)
_own = threading.local()

Run = tuple[int, int]
"""First page and number of pages, counted in the pages file."""


def drop(folder: Path) -> int:
    """Rewrite the images in a CRIU folder without zero pages of private anonymous memory; returns the bytes saved.

    The folder must be complete and not yet part of an image: a failure leaves it unusable. Raises TorporError when an
    image is not as expected.
    """
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        return sum(_drop_from(pagemap, pool) for pagemap in sorted(folder.glob("pagemap-[0-9]*.img")))


def _pages(run: Fields) -> int:
    """Number of pages of a run: CRIU 4.2 moved it to a wider field."""
    return number(run, _WIDE_COUNT) or number(run, _COUNT)


def _drop_from(pagemap: Path, pool: ThreadPoolExecutor) -> int:
    head, *runs = entries(pagemap, _PAGEMAP)
    pages = pagemap.with_name(f"pages-{number(head, 1)}.img")
    mm = raw_entries(pagemap.with_name(f"mm-{_pid(pagemap)}.img"), _MM)[0]
    areas = [fields(area) for area in repeated(mm, _AREAS)]
    wanted = _REGULAR | _ANON_PRIVATE
    private = _merged([(number(a, 1), number(a, 2)) for a in areas if number(a, 7) & wanted == wanted])
    present = [run for run in runs if number(run, 4) & _PRESENT]
    total = sum(_pages(run) for run in present)
    if total * PAGE != pages.stat().st_size:
        raise TorporError(f"{pages.name} has {pages.stat().st_size} bytes, {pagemap.name} speaks of {total * PAGE}")
    with pages.open("rb") as source:
        looks = list(pool.map(lambda piece: _filled(source.fileno(), *piece), _pieces(present, private)))
        filled = _joined(run for look in looks for run in look)
        kept = sum(count for _first, count in filled)
        if kept == total:
            return 0
        fresh = pages.with_suffix(".new")
        with fresh.open("xb") as target:
            os.truncate(target.fileno(), kept * PAGE)
            copies = _copies(filled)
            for _ in pool.map(lambda copy: _copy(source.fileno(), target.fileno(), *copy), copies):
                pass
        fresh.replace(pages)
        # The kernel takes its time to free the old file, at its last close.
        threading.Thread(target=os.close, args=(os.dup(source.fileno()),), daemon=True).start()
    _rewrite(pagemap, [head, *_remaining(runs, filled)])
    return (total - kept) * PAGE


def _pieces(present: list[Fields], private: list[tuple[int, int]]) -> Iterator[tuple[int, int, bool]]:
    """Work for the threads: first page, number of pages, and whether zeros among them may go."""
    position = 0
    for run in present:
        address, count = number(run, 1), _pages(run)
        at = bisect.bisect_right(private, (address, 1 << 64)) - 1
        inside = at >= 0 and address + count * PAGE <= private[at][1]
        for first in range(position, position + count, _PIECE):
            yield first, min(_PIECE, position + count - first), inside
        position += count


def _filled(source: int, first: int, count: int, droppable: bool) -> list[Run]:
    """The runs of pages that stay. Most pages are told by their first bytes."""
    if not droppable:
        return [(first, count)]
    content = _read(source, first, count)
    stay: list[Run] = []
    begin = None
    for page in range(count):
        at = page * PAGE
        empty = content[at : at + 64] == _SOME_ZEROS and content[at : at + PAGE] == _ZEROS
        if empty and begin is not None:
            stay.append((first + begin, page - begin))
            begin = None
        elif not empty and begin is None:
            begin = page
    if begin is not None:
        stay.append((first + begin, count - begin))
    return stay


def _read(source: int, first: int, count: int) -> bytearray:
    """The pages, at the start of the calling thread's buffer: fresh memory for each would cost more than the copy."""
    if not hasattr(_own, "buffer"):
        _own.buffer = bytearray(_PIECE * PAGE)
    buffer: bytearray = _own.buffer
    with memoryview(buffer)[: count * PAGE] as wanted:
        if os.preadv(source, [wanted], first * PAGE) != len(wanted):
            raise TorporError("a file of process memory got shorter while it was read")
    return buffer


def _joined(runs: Iterable[Run]) -> list[Run]:
    """The same pages in as few runs as possible."""
    joined: list[Run] = []
    for first, count in runs:
        if joined and sum(joined[-1]) == first:
            joined[-1] = (joined[-1][0], joined[-1][1] + count)
        else:
            joined.append((first, count))
    return joined


def _copies(filled: list[Run]) -> Iterator[tuple[int, int, int]]:
    """Source page, target page, number of pages of each copy."""
    target = 0
    for first, count in filled:
        for offset in range(0, count, _PIECE):
            yield first + offset, target + offset, min(_PIECE, count - offset)
        target += count


def _copy(source: int, target: int, first: int, to: int, count: int) -> None:
    content = memoryview(_read(source, first, count))[: count * PAGE]
    at = to * PAGE
    while content:
        written = os.pwrite(target, content, at)
        content, at = content[written:], at + written


def _remaining(runs: list[Fields], filled: list[Run]) -> Iterator[Fields]:
    """The pagemap's runs cut down to the pages that stay; both are in the order of the pages file."""
    position = index = 0
    for run in runs:
        if not number(run, 4) & _PRESENT:
            yield run
            continue
        end = position + _pages(run)
        while index < len(filled) and filled[index][0] < end:
            first, count = filled[index]
            begin, stop = max(first, position), min(first + count, end)
            if begin < stop:
                field = _WIDE_COUNT if _WIDE_COUNT in run else _COUNT
                yield {**run, 1: number(run, 1) + (begin - position) * PAGE, field: stop - begin}
            if first + count > end:
                break
            index += 1
        position = end


def _merged(areas: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The address ranges in order, those that touch made one: CRIU's runs may cross from one mapping to the next."""
    merged: list[tuple[int, int]] = []
    for start, stop in sorted(areas):
        if merged and merged[-1][1] == start:
            merged[-1] = (merged[-1][0], stop)
        else:
            merged.append((start, stop))
    return merged


def _rewrite(pagemap: Path, runs: list[Fields]) -> None:
    out = bytearray(struct.pack("<II", MAGIC, _PAGEMAP))
    for entry in runs:
        body = bytearray()
        for field, value in entry.items():
            if isinstance(value, bytes):
                raise TorporError(f"{pagemap.name} has a field that Torpor does not know ({field})")
            body += _varint(field << 3) + _varint(value)
        out += struct.pack("<I", len(body)) + body
    pagemap.write_bytes(out)


def _pid(pagemap: Path) -> int:
    return int(pagemap.stem.removeprefix("pagemap-"))


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
