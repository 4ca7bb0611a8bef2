"""Whether the driver's code in a process is what its file has.

A monitor's probes and a debugger's breakpoints are instructions put into the mapped code. They would go into the image
without who handles them, and the first call that meets one after a restore ends the process, or never returns.
"""

from __future__ import annotations

import mmap
import os
import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_LIBRARY = re.compile(r"lib(?:cuda|nvidia-[\w-]+)\.so[.\d]*")
_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) ..xp ([0-9a-f]+) \S+ \d+\s+(/.*)")
_PAGE = mmap.PAGESIZE
_OF_A_FILE, _IN_MEMORY = 1 << 61, 3 << 62
"""In an entry of /proc/<pid>/pagemap: the page is the file's own; it is present or swapped out."""


@dataclass(frozen=True)
class Change:
    """A page of code that differs from the file; `offset` is the first byte's, in the file."""

    path: str
    offset: int


def changes(pid: int) -> Iterator[Change]:
    """The first difference in each mapping of a driver library's code; nothing when the process has just ended.

    Only pages that are no longer the file's own are compared, so this costs some hundred microseconds.
    """
    try:
        lines = Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines()
        with Path(f"/proc/{pid}/pagemap").open("rb", buffering=0) as pagemap:
            for line in lines:
                match = _MAPPING.fullmatch(line)
                if match and _LIBRARY.fullmatch(match[4].rsplit("/", 1)[-1]):
                    start, end, offset = (int(match[group], 16) for group in (1, 2, 3))
                    found = _first_change(pid, pagemap.fileno(), (start, end), offset)
                    if found is not None:
                        yield Change(match[4], found)
    except OSError:
        return


def _first_change(pid: int, pagemap: int, place: tuple[int, int], offset: int) -> int | None:
    start, end = place
    entries = array("Q")
    data = os.pread(pagemap, (end - start) // _PAGE * 8, start // _PAGE * 8)
    entries.frombytes(data[: len(data) & ~7])
    own = [number for number, entry in enumerate(entries) if entry & _IN_MEMORY and not entry & _OF_A_FILE]
    if not own:
        return None
    with (
        Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory,
        Path(f"/proc/{pid}/map_files/{start:x}-{end:x}").open("rb", buffering=0) as file,
    ):
        for number in own:
            mine = os.pread(memory.fileno(), _PAGE, start + number * _PAGE)
            its = os.pread(file.fileno(), _PAGE, offset + number * _PAGE).ljust(_PAGE, b"\0")
            if mine != its:
                first = next(at for at, (one, other) in enumerate(zip(mine, its, strict=True)) if one != other)
                return offset + number * _PAGE + first
    return None
