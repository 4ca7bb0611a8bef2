"""Moves what stays of a CRIU pages file together, as far as CRIU's own description of it and the search have come.

CRIU's formats, from its protobuf definitions: `pagemap-<pid>.img` lists runs of pages (address, count, flags) whose
contents follow one another in `pages-<id>.img`. CRIU writes a run before its pages, some kilobytes at a time.
"""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from torpor.errors import TorporError
from torpor.process.criu_images import Fields, GrowingImage, encoded_field, number, write_entries
from torpor.process.page_worker import PAGE

_PAGEMAP = 0x56084025
_PRESENT = 1 << 2  # of a run: its pages are in the pages file
_COUNT, _WIDE_COUNT = 2, 5  # fields of a run: CRIU 4.2 moved its number of pages to a wider one
_WORTH = 16

Run = tuple[int, int]
"""First page and number of pages, counted in the pages file."""

Range = tuple[int, int]
"""Start and end address."""

Move = tuple[int, int, int]
"""First page and number of pages of a run, and the page that it moves to."""


class _Kept(NamedTuple):
    """An entry of the pagemap to be: where its pages belong, how many, and its other fields as protobuf has them."""

    address: int
    pages: int
    field: int
    rest: bytes


class Compaction:
    """Of one process's pages. `pages` is their file, None until CRIU has written its name."""

    def __init__(self, pagemap: Path) -> None:
        self.pages: Path | None = None
        self._pagemap = GrowingImage(pagemap, _PAGEMAP)
        self._head = b""
        self._runs: deque[Fields] = deque()  # read, and not settled yet
        self._kept: list[_Kept] = []
        self._position = self._end = 0  # pages settled, and those of them that stay
        self._moves: list[Move] = []
        self._moving = False
        self._divided = False  # the first of the runs is the rest of one
        self._dropped: list[Range] = []

    @property
    def path(self) -> Path:
        """The pagemap."""
        return self._pagemap.path

    @property
    def pid(self) -> int:
        """As the job's processes know it."""
        return int(self.path.stem.removeprefix("pagemap-"))

    def read(self) -> None:
        """Take in what CRIU has written since the last time."""
        for entry in self._pagemap.more():
            if self.pages is None:
                self._head = _encoded(entry)
                self.pages = self.path.with_name(f"pages-{number(entry, 1)}.img")
            else:
                self._runs.append(entry)

    def settle(self, private: Sequence[Range], staying: Sequence[Run], searched: int) -> list[Move]:
        """Decide about the runs in the first `searched` pages, of which `staying` are worth keeping; → moves to make.

        Only in `private` memory, in ascending order, pages are dropped. Nothing moves before a sixteenth can be
        dropped of what is there.
        """
        while self._runs:
            run = self._runs[0]
            address, count = number(run, 1), _pages(run)
            if not number(run, 4) & _PRESENT:
                self._keep(address, count, run)
                self._runs.popleft()
                continue
            part = min(count, searched - self._position)
            if part <= 0:
                break
            self._settle(run, address, part, private, staying)
            self._divided = part < count
            if self._divided:
                self._runs[0] = run | {1: address + part * PAGE, _field(run): count - part}
                break
            self._runs.popleft()
        if not self._moving and (self._position - self._end) * _WORTH < max(self._position, 1):
            return []
        self._moving = True
        moves, self._moves = self._moves, []
        return moves

    def finish(self, size: int, private: Sequence[Range]) -> int | None:
        """How many pages stay of `size` bytes, where the pagemap now speaks of these alone; None: nothing is dropped.

        Raises TorporError when CRIU's images contradict one another.
        """
        self._pagemap.end()
        if self._runs or self._position * PAGE != size:
            total = self._position + sum(_pages(run) for run in self._runs if number(run, 4) & _PRESENT)
            name = self.pages.name if self.pages else "no pages file"
            raise TorporError(f"{name} has {size} bytes, {self.path.name} speaks of {total * PAGE}")
        if not self._moving:
            return None
        if wrong := next((one for one in self._dropped if not _inside(private, *one)), None):
            raise TorporError(f"{self.path.name}: {wrong[0]:#x} was taken for private memory, and CRIU says it is not")
        entries = (encoded_field(1, one.address) + encoded_field(one.field, one.pages) + one.rest for one in self._kept)
        write_entries(self.path, _PAGEMAP, [self._head, *entries])
        return self._end

    def _settle(self, run: Fields, address: int, count: int, private: Sequence[Range], staying: Sequence[Run]) -> None:
        """One run, or as much of it as has been searched."""
        first, stop = self._position, address
        droppable = _inside(private, address, address + count * PAGE)
        for begin, length in _within(staying, first, count) if droppable else [(first, count)]:
            start = address + (begin - first) * PAGE
            if start > stop:
                self._dropped.append((stop, start))
            stop = start + length * PAGE
            self._keep(start, length, run)
            if begin != self._end:
                self._moves.append((begin, length, self._end))
            self._end += length
        if stop < address + count * PAGE:
            self._dropped.append((stop, address + count * PAGE))
        self._position += count

    def _keep(self, address: int, count: int, run: Fields) -> None:
        """An entry for this part of a run, or more of the last entry where it goes on with that."""
        field = _field(run)
        rest = _encoded({key: value for key, value in run.items() if key not in (1, field)})
        last = self._kept[-1] if self._divided and self._kept else None
        if last is not None and last.address + last.pages * PAGE == address:
            self._kept[-1] = last._replace(pages=last.pages + count)
            return
        self._kept.append(_Kept(address, count, field, rest))


def _field(run: Fields) -> int:
    """The field that holds a run's number of pages."""
    return _WIDE_COUNT if _WIDE_COUNT in run else _COUNT


def _pages(run: Fields) -> int:
    return number(run, _field(run))


def _inside(ranges: Sequence[Range], start: int, stop: int) -> bool:
    """Whether addresses lie wholly in one of the ranges."""
    at = bisect.bisect_right(ranges, (start, 1 << 64)) - 1
    return at >= 0 and stop <= ranges[at][1]


def _within(staying: Sequence[Run], position: int, count: int) -> list[Run]:
    """The part of the ascending runs that lies in these pages; those that touch are one."""
    found: list[Run] = []
    at = max(bisect.bisect_right(staying, (position, 0)) - 1, 0)
    while at < len(staying) and staying[at][0] < position + count:
        first, length = staying[at]
        begin, stop = max(first, position), min(first + length, position + count)
        if found and sum(found[-1]) == begin:
            found[-1] = (found[-1][0], stop - found[-1][0])
        elif begin < stop:
            found.append((begin, stop - begin))
        at += 1
    return found


def _encoded(entry: Fields) -> bytes:
    """A pagemap's entry as protobuf has it: all of its fields are numbers."""
    body = bytearray()
    for field, value in entry.items():
        if isinstance(value, bytes):
            raise TorporError(f"an entry of a pagemap has a field that Torpor does not know ({field})")
        body += encoded_field(field, value)
    return bytes(body)
