"""What the kernel says of a process's mappings and mounts, line by line."""

from __future__ import annotations

import errno
import os
from pathlib import Path


def lines(pid: int) -> list[str]:
    """The lines of /proc/<pid>/maps; OSError when the process is gone.

    A file's name may hold every character that Python ends a line at, and bytes that are no text: the kernel writes
    none but the end of a line as something else.
    """
    return [os.fsdecode(line) for line in Path(f"/proc/{pid}/maps").read_bytes().split(b"\n") if line]


def mounts(pid: int) -> list[str]:
    """The lines of /proc/<pid>/mountinfo; FileNotFoundError or ProcessLookupError when the process is gone, or ends."""
    try:
        data = Path(f"/proc/{pid}/mountinfo").read_bytes()
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        raise ProcessLookupError(errno.ESRCH, "it has given its mounts back", f"/proc/{pid}") from error
    return [os.fsdecode(line) for line in data.split(b"\n") if line]
