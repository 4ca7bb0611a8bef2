"""Bytes to and from files past the page cache (O_DIRECT), where the file system and their place in memory allow it.

A disk then takes several times as much a second, for a tenth of the processor's time (docs/design/store.md).
"""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

ALIGNED = 4096
"""Addresses, lengths and places in the file have to be multiples of this."""

PIECE = 16 << 20
"""Bytes of one call: large enough for the disk, small enough to notice a full one early."""

LARGE = 4 << 20
"""Files from so many bytes on are worth it."""


def opened(path: Path, flags: int, length: int) -> int:
    """A file's descriptor, with O_DIRECT where the file system and the length of what is to be moved allow it."""
    if length % ALIGNED == 0:
        try:
            return os.open(path, flags | os.O_CLOEXEC | os.O_DIRECT, 0o600)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            # A file system without O_DIRECT may have made the file before it said so.
            flags &= ~os.O_EXCL
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def write(descriptor: int, part: memoryview) -> int:
    """Write as much of the part's beginning as can go past the page cache, through a descriptor without O_DIRECT.

    Returns how many bytes that was; the rest is the caller's.
    """
    import numpy as np  # which takes longer to load than a keeper to start

    if np.frombuffer(part, np.uint8).ctypes.data % ALIGNED:
        return 0
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    at, end = 0, len(part) // ALIGNED * ALIGNED
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | os.O_DIRECT)
        while at < end:
            at += os.write(descriptor, part[at : min(at + PIECE, end)])
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system without it; or after a short write, which the rest will explain
            raise
    finally:
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags)
    return at
