"""Folders for images, or parts of them, that are only there for one restore."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from torpor import paths, records

_FETCHED = ".fetched"
"""Folder for what is only there for a restore: no image can have such a name."""


@contextmanager
def passing(size: int) -> Iterator[Path]:
    """A folder that is there for the block only, with room for so many bytes: in memory, else on the disk."""
    parent = paths.room_for(size) / _FETCHED
    paths.make_private(parent)
    _sweep(parent)
    own = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-{records.process_start(os.getpid())}-", dir=parent))
    try:
        yield own
    finally:
        shutil.rmtree(own, ignore_errors=True)


def _sweep(parent: Path) -> None:
    """Remove what killed restores have left: each folder's name says whose it is."""
    for entry in list(parent.iterdir()):
        pid, _, rest = entry.name.partition("-")
        if pid.isdigit() and str(records.process_start(int(pid))) != rest.partition("-")[0]:
            shutil.rmtree(entry, ignore_errors=True)
