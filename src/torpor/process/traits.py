"""What a thread is to the kernel's schedulers, which CRIU leaves out: CPUs, timer slack, I/O priority, core dumps.

Saved from outside while the threads stand still, and set from outside as soon as they are back.
"""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from torpor.process import tree
from torpor.process.tree import Process

NAME = "threads.json"
"""The file's name in an image: thread id, as the job sees it → traits."""

_IOPRIO_SET, _IOPRIO_GET, _OF_THREAD = 251, 252, 1  # system calls of x86_64
_libc = ctypes.CDLL(None, use_errno=True)


def save(processes: Iterable[Process], image: Path) -> None:
    """Write the traits of all threads. OSError when the file cannot be written; threads that end are left out."""
    found: dict[str, dict[str, Any]] = {}
    for process in processes:
        for thread in process.threads:
            try:
                found[str(_inner(process.pid, thread))] = {
                    "cpus": sorted(os.sched_getaffinity(thread)),
                    "timer_slack": int(_file(thread, "timerslack_ns").read_text()),
                    "io_priority": _libc.syscall(_IOPRIO_GET, _OF_THREAD, thread),
                    "core_filter": int(_file(thread, "coredump_filter").read_text(), 16),
                }
            except (OSError, ValueError):
                continue
    (image / NAME).write_text(json.dumps(found, indent=1) + "\n")


def cpus(image: Path) -> list[int]:
    """Those on which any of the image's threads may run; none where it does not say."""
    try:
        known: dict[str, dict[str, Any]] = json.loads((image / NAME).read_text())
    except FileNotFoundError:
        return []
    return sorted({cpu for traits in known.values() for cpu in traits["cpus"]})


def put_back(processes: Iterable[Process], image: Path) -> None:
    """Give the threads their traits again, as far as this host has such; an image without any is left at that."""
    try:
        wanted: dict[str, dict[str, Any]] = json.loads((image / NAME).read_text())
    except FileNotFoundError:
        return
    for process in processes:
        for thread in process.threads:
            try:
                traits = wanted.get(str(_inner(process.pid, thread)))
            except OSError:
                continue  # it has just ended
            if traits is not None:
                _apply(thread, traits)


def _apply(thread: int, traits: dict[str, Any]) -> None:
    try:
        allowed = set(traits["cpus"]) & os.sched_getaffinity(os.getpid())
        if allowed and allowed != os.sched_getaffinity(thread):
            os.sched_setaffinity(thread, allowed)
        if traits["io_priority"] >= 0:
            _libc.syscall(_IOPRIO_SET, _OF_THREAD, thread, traits["io_priority"])
        slack = _file(thread, "timerslack_ns")
        if int(slack.read_text()) != traits["timer_slack"]:
            slack.write_text(str(traits["timer_slack"]))
        _file(thread, "coredump_filter").write_text(hex(traits["core_filter"]))
    except (OSError, ValueError):
        pass  # it has just ended, or this host does not let it be so


def _file(thread: int, name: str) -> Path:
    return Path(f"/proc/{thread}/{name}")


def _inner(process: int, thread: int) -> int:
    return int(tree.status_at(f"/proc/{process}/task/{thread}/status")["NSpid"].split()[-1])
