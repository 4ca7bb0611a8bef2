"""The limits under which this process and what it starts work. Standard library only: supervisors use it, too."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_SHELL = ("AS", "CPU", "DATA", "FSIZE", "MEMLOCK", "NPROC", "RSS")
"""What `ulimit` sets that a process for everybody is not to have. The stack's is no limit for it, but a layout."""

_CPUS = range(8192)
"""More than Linux can have; it leaves out those that are not there, or not in the process's cgroup."""

_SET_MEMPOLICY, _IOPRIO_SET, _OF_PROCESS = 238, 251, 1  # system calls of x86_64


def most_descriptors() -> int:
    """What the kernel allows any process to have."""
    with open("/proc/sys/fs/nr_open", encoding="ascii") as file:  # noqa: PTH123
        return int(file.read())


def shed() -> None:
    """Do away with the limits, the CPUs, the NUMA nodes, the priorities and the signals held back of the shell that
    happened to start this process, as far as it may: it works for others, too, and for longer. What cgroups say holds.
    For a process with one thread."""
    lift(resource.RLIMIT_NOFILE, most_descriptors())
    for name in _SHELL:
        lift(getattr(resource, f"RLIMIT_{name}"), resource.RLIM_INFINITY)
    with suppress(OSError):
        os.sched_setaffinity(0, _CPUS)
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    if os.getpriority(os.PRIO_PROCESS, 0) > 0:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, 0)
    system = ctypes.CDLL(None)
    system.syscall(_SET_MEMPOLICY, 0, None, 0)
    system.syscall(_IOPRIO_SET, _OF_PROCESS, 0, 0)  # back to what goes with the scheduler's
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it takes away how a child has ended
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def lift(limit: int, wanted: int) -> tuple[int, int]:
    """Raise a limit (`resource.RLIMIT_*`) to `wanted`, or as far as this process may. Returns it as it was."""
    before = resource.getrlimit(limit)
    try:
        resource.setrlimit(limit, (wanted, wanted))
    except (OSError, ValueError):
        with suppress(OSError, ValueError):  # e.g. beyond what the kernel allows anybody by now
            resource.setrlimit(limit, (before[1], before[1]))
    return before


@contextmanager
def lifted(limit: int) -> Iterator[None]:
    """Within, this process has no such limit, as far as it may; its other threads see that, too."""
    before = lift(limit, resource.RLIM_INFINITY)
    try:
        yield
    finally:
        resource.setrlimit(limit, before)
