"""Copies memory between files, in parts that several threads take; what is a hole stays one.

Standard library only: supervisors use it, too.
"""

from __future__ import annotations

import os
import threading

from torpor.process.shares import cut

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MOST = 8
"""Threads at most."""

LENGTH = 64 << 20
"""Bytes of a part where a file is cut."""

_IO = 16 << 20

Part = tuple[str, int, int, int, int]
"""Path that is read, offset and length there; the descriptor that is written, and the offset there."""


def parts(path: str, size: int, target: int, there: int = 0) -> list[Part]:
    """What there is of the first `size` bytes of a file, to go to `there` and on. Raises OSError."""
    source = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        # All at once: to find the end of some bytes the kernel looks at every page up to there.
        data = list(_data(source, min(size, os.fstat(source).st_size)))
    finally:
        os.close(source)
    return [
        (path, at, length, target, there + at) for begin, end in data for at, length in cut(begin, end - begin, LENGTH)
    ]


def copy(wanted: Sequence[Part]) -> None:
    """Copy every part into files that are as long as they are to be, and zeros so far.

    Raises the first error, an OSError, with nothing under way any more.
    """
    left = iter(wanted)
    lock = threading.Lock()
    failed: list[BaseException] = []

    def work() -> None:
        while not failed:
            with lock:
                part = next(left, None)
            if part is None:
                return
            try:
                _copy(*part)
            except BaseException as error:  # noqa: BLE001  raised again below
                failed.append(error)

    count = min(MOST, len(os.sched_getaffinity(0)), len(wanted))
    threads = [threading.Thread(target=work, name="side-by-side") for _ in range(count - 1)]
    for thread in threads:
        thread.start()
    work()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def _copy(path: str, at: int, length: int, target: int, there: int) -> None:
    source = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    own = -1
    try:
        # sendfile takes the least time of the processor, and writes at the place that a descriptor is at: each thread
        # needs one of its own.
        own = os.open(f"/proc/self/fd/{target}", os.O_WRONLY | os.O_CLOEXEC)
        os.lseek(own, there, os.SEEK_SET)
        end = at + length
        while at < end and (count := os.sendfile(own, source, at, min(end - at, _IO))):
            at += count
    finally:
        os.close(source)
        if own >= 0:
            os.close(own)


def _data(source: int, size: int) -> Iterator[tuple[int, int]]:
    """Where there are bytes that are no hole."""
    end = 0
    while end < size:
        try:
            begin = os.lseek(source, end, os.SEEK_DATA)
        except OSError:  # nothing but a hole follows
            return
        if begin >= size:
            return
        end = min(os.lseek(source, begin, os.SEEK_HOLE), size)
        yield begin, end
