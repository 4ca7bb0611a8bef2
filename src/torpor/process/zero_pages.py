"""Leaves pages of zeros out of CRIU's images: memory that reads as zero without them costs nothing to store or restore.

More than half of a PyTorch job's process image is such pages (docs/design/criu.md): buffers that somebody filled with
zeros, and what the driver's checkpoint copied from empty GPU memory. CRIU keeps them, since it cannot tell them from
others without reading them. Only private anonymous memory is treated: there, a page that the image does not mention is
restored as an untouched one, which reads as zeros. Files' pages, shared memory and what a parent image has stay.

All of it goes on while CRIU writes; only the last pieces are left for the time when the job waits.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from torpor.errors import TorporError
from torpor.process import maps
from torpor.process.compaction import Compaction, Move, Range
from torpor.process.criu_images import fields, number, raw_entries, repeated
from torpor.process.page_search import PageSearch
from torpor.process.page_worker import PAGE
from torpor.process.page_workers import PageWorkers

_MM = 0x57492820
_AREAS = 14  # field of the mm image that holds the mappings
_REGULAR, _ANON_PRIVATE = 1 << 0, 1 << 9  # of a mapping
_PIECE = (32 << 20) // PAGE
_PAUSE = 0.005  # seconds between two looks at the files


class ZeroPages:
    """Those of one folder of images, from CRIU's start on. As a context, it ends what it began.

    `processes` are the host's pids of the job's processes by their own: what a process has mapped privately is known
    from the host before CRIU has written it down. Those of an unknown process wait for that.
    """

    def __init__(self, folder: Path, workers: PageWorkers, processes: Mapping[int, int]) -> None:
        self.folder = folder
        self._processes = processes
        self._search = PageSearch(workers)
        self._compactions: dict[Path, Compaction] = {}
        self._private: dict[int, list[Range]] = {}
        self._moves: dict[Path, list[Move]] = {}
        self._stop = threading.Event()
        self._failure: Exception | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> ZeroPages:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def begin(self) -> None:
        """Start to follow CRIU."""
        self._thread = threading.Thread(target=self._follow, name="zero pages", daemon=True)
        self._thread.start()

    def finish(self) -> int:
        """Leave out what is left of them in the complete folder, which is not yet part of an image; → bytes saved.

        A file of which less than one part in sixteen would go is left as it is. A failure leaves the folder unusable.
        Raises TorporError when an image is not as expected, OSError when it cannot be read or written.
        """
        self._end()
        if self._failure is not None:
            raise self._failure
        self._read()
        self._search.look([one.pages for one in self._compactions.values() if one.pages], 1, self._moves)
        self._moves = {}
        private = {one.pid: _written(one.path.with_name(f"mm-{one.pid}.img")) for one in self._compactions.values()}
        for one in self._compactions.values():
            self._settle(one, private[one.pid])
        self._search.look([], 1, self._moves)
        return sum(self._cut(one, private[one.pid]) for one in self._compactions.values())

    def _end(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _follow(self) -> None:
        try:
            while not self._stop.wait(_PAUSE):
                self.step()
        except Exception as error:  # noqa: BLE001 - whatever it is, moves may be lost, and nobody may go on with that
            self._failure = error

    def step(self) -> None:
        """As far as CRIU has come: search what is new, and move together what was searched the last time."""
        files = [file for file in sorted(self.folder.glob("pages-[0-9]*.img")) if file.stat().st_size]
        moves, self._moves = self._moves, {}
        self._search.look(files, _PIECE, moves)
        self._read()
        for one in self._compactions.values():
            host = self._processes.get(one.pid)
            if one.pages is None or host is None:
                continue
            if one.pid not in self._private:
                self._private[one.pid] = mapped(host)
            self._settle(one, self._private[one.pid])

    def _read(self) -> None:
        for path in sorted(self.folder.glob("pagemap-[0-9]*.img")):
            self._compactions.setdefault(path, Compaction(path)).read()

    def _settle(self, one: Compaction, private: Sequence[Range]) -> None:
        if one.pages is not None:
            moves = one.settle(private, self._search.staying(one.pages), self._search.searched(one.pages))
            self._moves.setdefault(one.pages, []).extend(moves)

    def _cut(self, one: Compaction, private: Sequence[Range]) -> int:
        if one.pages is None:
            raise TorporError(f"{one.path.name} names no pages file")
        size = one.pages.stat().st_size
        stay = one.finish(size, private)
        if stay is None:
            return 0
        os.truncate(one.pages, stay * PAGE)
        return size - stay * PAGE


def mapped(host_pid: int) -> list[Range]:
    """The private anonymous memory of a process of this host; none when it is gone."""
    try:
        lines = maps.lines(host_pid)
    except OSError:
        return []
    ranges = []
    for line in lines:
        addresses, access, _offset, _device, inode, *name = line.split(maxsplit=5)
        ordinary = not name or name[0] in ("[heap]", "[stack]") or name[0].startswith("[anon:")
        if access[3] == "p" and inode == "0" and ordinary:
            start, _, stop = addresses.partition("-")
            ranges.append((int(start, 16), int(stop, 16)))
    return _merged(ranges)


def _written(mm: Path) -> list[Range]:
    """The private anonymous memory that CRIU's list of mappings knows."""
    areas = [fields(area) for area in repeated(raw_entries(mm, _MM)[0], _AREAS)]
    wanted = _REGULAR | _ANON_PRIVATE
    return _merged([(number(a, 1), number(a, 2)) for a in areas if number(a, 7) & wanted == wanted])


def _merged(areas: list[Range]) -> list[Range]:
    """The address ranges in order, those that touch made one: CRIU's runs may cross from one mapping to the next."""
    merged: list[Range] = []
    for start, stop in sorted(areas):
        if merged and merged[-1][1] == start:
            merged[-1] = (merged[-1][0], stop)
        else:
            merged.append((start, stop))
    return merged
