"""The page cache: emptied of files, so that they are read from the disk again."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

DROP = Path("/proc/sys/vm/drop_caches")


def mapped_by(pid: int) -> set[Path]:
    """Files that a process has mapped: its libraries."""
    words = [
        line.split(maxsplit=5) for line in Path(f"/proc/{pid}/maps").read_text(errors="surrogateescape").splitlines()
    ]
    found = {Path(word[5]) for word in words if len(word) == 6 and word[5].startswith("/")}
    return {path for path in found if path.is_file()}


def drop(files: Iterable[Path], *, everything: bool) -> str:
    """Write back and drop; folders stand for all files in them. Says what was dropped.

    With `everything` the whole machine's cache goes, where that is allowed (root); else the named files' pages, as far
    as no process has them mapped.
    """
    os.sync()
    if everything:
        try:
            DROP.write_text("3")
            return "the machine's whole page cache"
        except OSError:
            pass
    for path in files:
        for file in path.rglob("*") if path.is_dir() else [path]:
            if not file.is_file():
                continue
            handle = os.open(file, os.O_RDONLY)
            try:
                os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(handle)
    return "the pages of the files that are read (posix_fadvise)"
