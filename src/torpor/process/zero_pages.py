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
from pathlib import Path

from torpor.errors import TorporError
from torpor.process.criu_images import (
    Fields,
    encoded_field,
    entries,
    fields,
    number,
    raw_entries,
    repeated,
    write_entries,
)
from torpor.process.page_search import PageSearch, Run
from torpor.process.page_worker import PAGE

_PAGEMAP, _MM = 0x56084025, 0x57492820
_PRESENT = 1 << 2  # of a run: its pages are in the pages file
_REGULAR, _ANON_PRIVATE = 1 << 0, 1 << 9  # of a mapping
_COUNT, _WIDE_COUNT = 2, 5  # fields of a run
_AREAS = 14  # field of the mm image that holds the mappings
_WORTH = 16

Range = tuple[int, int]
"""Start and end address."""

Move = tuple[int, int, int]
"""First page and number of pages of a run, and the page that it moves to."""


def drop(search: PageSearch) -> int:
    """Rewrite the images in the CRIU folder of `search` without zero pages of private anonymous memory.

    Returns the bytes saved. A file of which less than one part in `_WORTH` would go is left as it is. The folder must
    be complete and not yet part of an image: a failure leaves it unusable. Raises TorporError when an image is not as
    expected, OSError when it cannot be read or written.
    """
    pagemaps = {path: entries(path, _PAGEMAP) for path in sorted(search.folder.glob("pagemap-[0-9]*.img"))}
    pages = {path: path.with_name(f"pages-{number(head, 1)}.img") for path, (head, *_) in pagemaps.items()}
    search.finish(pages.values())
    return sum(_drop_from(path, found, pages[path], search) for path, found in pagemaps.items())


def _pages(run: Fields) -> int:
    """Number of pages of a run: CRIU 4.2 moved it to a wider field."""
    return number(run, _WIDE_COUNT) or number(run, _COUNT)


def _drop_from(pagemap: Path, found: list[Fields], pages: Path, search: PageSearch) -> int:
    head, *runs = found
    mm = raw_entries(pagemap.with_name(f"mm-{_pid(pagemap)}.img"), _MM)[0]
    areas = [fields(area) for area in repeated(mm, _AREAS)]
    wanted = _REGULAR | _ANON_PRIVATE
    private = _merged([(number(a, 1), number(a, 2)) for a in areas if number(a, 7) & wanted == wanted])
    size = pages.stat().st_size
    total = sum(_pages(run) for run in runs if number(run, 4) & _PRESENT)
    if total * PAGE != size:
        raise TorporError(f"{pages.name} has {size} bytes, {pagemap.name} speaks of {total * PAGE}")
    staying: list[Run] = []  # in the order of the file, and so are the runs
    position = 0
    for run in runs:
        if number(run, 4) & _PRESENT:
            whole = (position, _pages(run))
            inside = _inside(private, number(run, 1), _pages(run))
            staying += _within(search.staying(pages), *whole) if inside else [whole]
            position += _pages(run)
    saved = size - sum(count for _, count in staying) * PAGE
    if saved * _WORTH < size:
        return 0
    kept = [_encoded(head)]
    moves: list[Move] = []
    position = end = 0
    for run in runs:
        if not number(run, 4) & _PRESENT:
            kept.append(_encoded(run))
            continue
        address, count = number(run, 1), _pages(run)
        stays = _within(staying, position, count)
        field = _WIDE_COUNT if _WIDE_COUNT in run else _COUNT
        rest = _encoded({key: value for key, value in run.items() if key not in (1, field)})
        for first, length in stays:
            kept.append(_encoded({1: address + (first - position) * PAGE, field: length}) + rest)
            if first != end:
                moves.append((first, length, end))
            end += length
        position += count
    # In place: fresh memory costs more than the moves, above all on a virtual machine that gives back what is free.
    search.move(pages, moves, end)
    write_entries(pagemap, _PAGEMAP, kept)
    return saved


def _inside(private: list[Range], address: int, count: int) -> bool:
    """Whether a run of pages lies wholly in one of the ranges."""
    at = bisect.bisect_right(private, (address, 1 << 64)) - 1
    return at >= 0 and address + count * PAGE <= private[at][1]


def _within(staying: list[Run], position: int, count: int) -> list[Run]:
    """The part of the ascending runs that lies in these pages."""
    found = []
    at = max(bisect.bisect_right(staying, (position, 0)) - 1, 0)
    while at < len(staying) and staying[at][0] < position + count:
        first, length = staying[at]
        begin, stop = max(first, position), min(first + length, position + count)
        if begin < stop:
            found.append((begin, stop - begin))
        at += 1
    return found


def _merged(areas: list[Range]) -> list[Range]:
    """The address ranges in order, those that touch made one: CRIU's runs may cross from one mapping to the next."""
    merged: list[Range] = []
    for start, stop in sorted(areas):
        if merged and merged[-1][1] == start:
            merged[-1] = (merged[-1][0], stop)
        else:
            merged.append((start, stop))
    return merged


def _encoded(entry: Fields) -> bytes:
    """A pagemap's entry as protobuf has it: all of its fields are numbers."""
    body = bytearray()
    for field, value in entry.items():
        if isinstance(value, bytes):
            raise TorporError(f"an entry of a pagemap has a field that Torpor does not know ({field})")
        body += encoded_field(field, value)
    return bytes(body)


def _pid(pagemap: Path) -> int:
    return int(pagemap.stem.removeprefix("pagemap-"))
