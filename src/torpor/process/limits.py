"""The limits under which this process and what it starts work. Standard library only: supervisors use it, too."""

from __future__ import annotations

import resource


def most_descriptors() -> int:
    """What the kernel allows any process to have."""
    with open("/proc/sys/fs/nr_open", encoding="ascii") as file:  # noqa: PTH123
        return int(file.read())


def lift(limit: int, wanted: int) -> tuple[int, int]:
    """Raise a limit (`resource.RLIMIT_*`) to `wanted`, or as far as this process may. Returns it as it was."""
    before = resource.getrlimit(limit)
    try:
        resource.setrlimit(limit, (wanted, wanted))
    except (OSError, ValueError):
        resource.setrlimit(limit, (before[1], before[1]))
    return before
