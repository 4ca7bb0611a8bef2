"""Descriptors of `/dev/tty`, led to the terminal that they mean, under its own name.

CRIU can give a job another terminal in the place of its own (an external one), but not know what `/dev/tty` means then.
What the program finds is the same either way, so there is nothing to undo.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path

from torpor.process import inside
from torpor.process.held import Descriptor, descriptors
from torpor.process.inside import Inside
from torpor.process.tree import Process

_NAME = "/dev/tty"
_FIRST_SLAVE = 136
_CLOSE, _OPENAT, _DUP3 = 3, 257, 292
_AT_FDCWD = -100
_STATUS = os.O_ACCMODE | os.O_NONBLOCK | os.O_APPEND


def name(processes: Sequence[Process], stdio: Collection[str]) -> None:
    """Do so for the processes whose controlling terminal is one of the job's streams (CRIU's keys, `tty[…]`).

    Where it cannot be done CRIU refuses, and says why. OSError when a process may not be traced.
    """
    if not inside.is_possible() or not any(key.startswith("tty[") for key in stdio):
        return
    meant: dict[Process, list[Descriptor]] = {}
    for one in descriptors(processes):
        if one.target == _NAME:
            meant.setdefault(one.owner, []).append(one)
    for process, files in meant.items():
        path = _terminal(process.pid, stdio)
        if path is not None:
            try:
                _lead(process, files, path)
            except ProcessLookupError:
                continue  # it has ended


def _lead(process: Process, files: Sequence[Descriptor], path: str) -> None:
    with Inside(process.pid) as called:
        for one in files:
            flags = int(one.facts.get("flags", "0"), 8)
            how = flags & _STATUS | os.O_NOCTTY | os.O_CLOEXEC
            opened = called.path_call(_OPENAT, path.encode(), how, 0, first=_AT_FDCWD)
            called.call(_DUP3, opened, one.number, flags & os.O_CLOEXEC)
            called.call(_CLOSE, opened)


def _terminal(pid: int, stdio: Collection[str]) -> str | None:
    """The path of its controlling terminal where that is one of `stdio`."""
    try:
        number = int(Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[4])
    except OSError:
        return None
    major, minor = number >> 8 & 0xFFF, number & 0xFF | number >> 12 & 0xFFF00
    if not any(key.startswith(f"tty[{os.makedev(major, minor):x}:") for key in stdio):
        return None
    return f"/dev/pts/{(major - _FIRST_SLAVE) * 256 + minor}"
