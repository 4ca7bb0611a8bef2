"""Moving bytes between rows and segments: a few threads per GPU, each with its own stream.

A thread takes one segment's work from start to end (get the segment, copy, hash, write). Several threads per GPU
keep the link full while others wait for a disk or grow the pool; each step leaves the GIL, so they overlap.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from torpor.driver.copies import Stream
from torpor.driver.devices import Driver

THREADS_PER_GPU = max(2, min(8, os.cpu_count() or 2))

Work = Callable[[Stream], int]
"""Does one segment's part on a stream and returns the bytes it moved."""


@dataclass(frozen=True)
class Moved:
    """What a transfer did: `bytes` in `seconds`."""

    bytes: int
    seconds: float

    @property
    def gbps(self) -> float:
        """10⁹ bytes per second."""
        return self.bytes / self.seconds / 1e9 if self.seconds > 0 else 0.0


def run(
    driver: Driver, work: Iterable[tuple[int, Work]], on_bytes: Callable[[int], None], stop: threading.Event
) -> Moved:
    """Do all the work, given as (device ordinal, function), every GPU's at the same time, in order per GPU.

    Returns, or raises the first failure, after all threads have come to rest. Once something failed, or `stop` is
    set, nothing further is begun.
    """
    begun = time.monotonic()
    queues: dict[int, queue.SimpleQueue[Work]] = {}
    counts: dict[int, int] = {}
    for ordinal, one in work:
        queues.setdefault(ordinal, queue.SimpleQueue()).put(one)
        counts[ordinal] = counts.get(ordinal, 0) + 1
    failures: list[BaseException] = []
    moved: list[int] = []

    def serve(ordinal: int, todo: queue.SimpleQueue[Work]) -> None:
        try:
            driver.bind(ordinal)
            with Stream() as stream:
                while not failures and not stop.is_set():
                    try:
                        one = todo.get_nowait()
                    except queue.Empty:
                        return
                    count = one(stream)
                    moved.append(count)
                    on_bytes(count)
        except BaseException as error:  # noqa: BLE001 - handed to the caller's thread
            failures.append(error)

    threads = [
        threading.Thread(target=serve, args=(ordinal, todo), name=f"copy-gpu{ordinal}-{number}")
        for ordinal, todo in queues.items()
        for number in range(min(THREADS_PER_GPU, counts[ordinal]))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return Moved(sum(moved), time.monotonic() - begun)
