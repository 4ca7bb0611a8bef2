"""GPU device files that a process only inherited, and how it is relieved of them before CRIU looks.

A child that was forked after its parent initialised CUDA has copies of the parent's descriptors of `/dev/nvidia*`, and
of mappings of them. The driver does not work there (every call answers "not initialised"), so they are of no use to it;
but CRIU cannot save them, and while they are open the parent's device memory may not go. Each number then leads to
`/dev/null`, each mapping becomes private memory of zeros: nothing of the child moves or changes its number.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from torpor.process import open_files
from torpor.process.held import Descriptor, descriptors
from torpor.process.inside import Inside
from torpor.process.tree import GPU_DEVICE, Process

_MMAP, _CLOSE, _OPENAT, _DUP3 = 9, 3, 257, 292
_AT_FDCWD = -100
_FIXED, _NORESERVE = 0x10, 0x4000
_PROTECTION = {"r": mmap.PROT_READ, "w": mmap.PROT_WRITE, "x": mmap.PROT_EXEC, "-": 0}
_LINE = re.compile(rf"([0-9a-f]+)-([0-9a-f]+) (...). \S+ \S+ \S+\s+{GPU_DEVICE}")


@dataclass(frozen=True)
class _Mapping:
    start: int
    end: int
    protection: int


def only_inherited(process: Process, givers: Sequence[Process]) -> bool:
    """Whether all GPU device files of `process` are those that one of the `givers` has open too.

    What it opened itself is another open file. False also where the kernel does not compare.
    """
    if not givers:
        return False
    theirs = {giver.pid: _gpu_files(giver) for giver in givers}
    for mine in _gpu_files(process):
        # Mostly it has the same number in both.
        candidates = [
            (pid, other.number)
            for pid, files in theirs.items()
            for other in sorted(files, key=lambda one: one.number != mine.number)
        ]
        try:
            if not any(open_files.order(process.pid, mine.number, pid, number) == 0 for pid, number in candidates):
                return False
        except OSError:
            return False
    return True


def is_forked_from(process: Process, givers: Sequence[Process]) -> bool:
    """Whether `process` is one of them forked, without having executed a program since.

    Where code, data, stack and environment begin is random for each program, and the same after a fork. False where
    the kernel hides it.
    """
    mine = _layout(process.pid)
    return mine is not None and any(mine == _layout(giver.pid) for giver in givers)


_LAYOUT = (26, 28, 45, 50)
"""Fields of /proc/<pid>/stat: the addresses of code, stack, data and environment."""


def _layout(pid: int) -> tuple[str, ...] | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    found = tuple(fields[number - 3] for number in _LAYOUT)
    return None if set(found) == {"0"} else found


def relieve(process: Process) -> None:
    """Let it have none of them any more. OSError where it is gone, or may not be traced or open `/dev/null`."""
    files, mappings = _gpu_files(process), _gpu_mappings(process.pid)
    if not files and not mappings:
        return
    with Inside(process.pid) as inside:
        null = inside.path_call(_OPENAT, b"/dev/null", os.O_RDWR | os.O_CLOEXEC, 0, first=_AT_FDCWD)
        for one in files:
            inside.call(_DUP3, null, one.number, int(one.facts.get("flags", "0"), 8) & os.O_CLOEXEC)
        inside.call(_CLOSE, null)
        for area in mappings:
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _FIXED | _NORESERVE
            inside.call(_MMAP, area.start, area.end - area.start, area.protection, flags, -1, 0)


def still_held(processes: Collection[Process]) -> list[Process]:
    """Those that have a GPU device file now, whatever was read of them before."""
    return [one for one in processes if _gpu_files(one) or _gpu_mappings(one.pid)]


def _gpu_files(process: Process) -> list[Descriptor]:
    return [one for one in descriptors([process]) if one.target.startswith(GPU_DEVICE)]


def _gpu_mappings(pid: int) -> list[_Mapping]:
    try:
        lines = Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines()
    except OSError:
        return []
    return [
        _Mapping(int(found[1], 16), int(found[2], 16), sum(_PROTECTION[letter] for letter in found[3]))
        for line in lines
        if (found := _LINE.match(line))
    ]
