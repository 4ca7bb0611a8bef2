"""In the supervisor, before a restore: the job's pinned host memory, as files without names, filled from an image.

The supervisor does it and not the keeper, so that the memory counts as the job's.
"""

from __future__ import annotations

import mmap
import os
import threading

from torpor.process.mounts import PINNED_INSIDE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

MOST = 8
"""Threads: more did not copy faster (docs/design/pinned.md)."""

_IO = 8 << 20

Copy = tuple[str, int, int]
"""Path of a piece, the descriptor that it goes to, and where in it."""


def make(wanted: Sequence[dict[str, Any]]) -> dict[str, int]:
    """Descriptors of new files by CRIU's keys, with all bytes. Raises OSError; nothing is left open then."""
    made: dict[str, int] = {}
    try:
        copies: list[Copy] = []
        for file in wanted:
            descriptor = os.open(PINNED_INSIDE, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
            made[file["key"]] = descriptor
            os.fchmod(descriptor, file["mode"])
            os.truncate(descriptor, file["size"])
            at = 0
            for path, length in file["pieces"]:
                copies.append((path, descriptor, at))
                at += length
        _copy_all(copies)
    except BaseException:
        for descriptor in made.values():
            os.close(descriptor)
        raise
    return made


def _copy_all(copies: list[Copy]) -> None:
    left = iter(copies)
    lock = threading.Lock()
    failed: list[OSError] = []

    def work() -> None:
        while not failed:
            with lock:
                copy = next(left, None)
            if copy is None:
                return
            try:
                _copy(*copy)
            except OSError as error:
                failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(min(MOST, len(os.sched_getaffinity(0)), len(copies)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def _copy(path: str, target: int, at: int) -> None:
    """What the piece has of a file's bytes; its holes stay holes."""
    source = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(source).st_size
        if not size:
            return
        with mmap.mmap(source, size, prot=mmap.PROT_READ) as content, memoryview(content) as view:
            for start, stop in _data(source, size):
                done = start
                while done < stop:
                    done += os.pwrite(target, view[done : min(done + _IO, stop)], at + done)
    finally:
        os.close(source)


def _data(source: int, size: int) -> Iterator[tuple[int, int]]:
    stop = 0
    while stop < size:
        try:
            start = os.lseek(source, stop, os.SEEK_DATA)
        except OSError:  # nothing but a hole follows
            return
        stop = os.lseek(source, start, os.SEEK_HOLE)
        yield start, stop
