"""What processes hold of the host: what may not grow from one cycle of sleep and waking to the next."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

MIB = 1 << 20


@dataclass(frozen=True)
class Held:
    """Open descriptors, mappings, threads, and resident bytes, over all processes."""

    descriptors: int
    mappings: int
    threads: int
    resident: int

    def is_no_more_than(self, earlier: Held) -> bool:
        """Counts may differ by what lies between two moments of a program at work, not by something per cycle."""
        return (
            self.descriptors <= earlier.descriptors + 2
            and self.mappings <= earlier.mappings + 8
            and self.threads <= earlier.threads + 1
            and self.resident <= earlier.resident + 16 * MIB
        )


def held(processes: Iterable[int]) -> Held:
    """By live processes of this host. Raises OSError when one has ended."""
    totals = [0, 0, 0, 0]
    for process in processes:
        proc = Path("/proc") / str(process)
        totals[0] += len(list((proc / "fd").iterdir()))
        totals[1] += len((proc / "maps").read_text().splitlines())
        totals[2] += len(list((proc / "task").iterdir()))
        totals[3] += int((proc / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return Held(*totals)


def processes_of(home: Path) -> set[int]:
    """Processes that live in a job's mount namespace of this home: supervisors, programs, CRIU."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                mounts = (entry / "mountinfo").read_text()
            except OSError:
                continue
            if f"{home}/jobs/" in mounts:
                found.add(int(entry.name))
    return found
