"""Which descriptors lead to the same open file, of one process or of several: the kernel orders them (kcmp(2))."""

from __future__ import annotations

import ctypes
import os
import platform

_KCMP = {"x86_64": 312, "aarch64": 272}
_FILE = 0
_ORDER = {0: 0, 1: -1, 2: 1}

_libc = ctypes.CDLL(None, use_errno=True)


def order(pid: int, descriptor: int, other_pid: int, other: int) -> int:
    """0 where both are the same open file, else -1 or 1 by an order that is total. OSError where the kernel refuses."""
    number = _KCMP.get(platform.machine())
    found = -1 if number is None else _libc.syscall(number, pid, other_pid, _FILE, descriptor, other)
    if found not in _ORDER:
        why = ctypes.get_errno()
        raise OSError(why, f"the kernel does not compare open files (kcmp): {os.strerror(why)}")
    return _ORDER[found]
