"""Moving bytes between rows and segments: a few threads per GPU, each with its own stream.

A thread takes one segment's work from start to end (get the segment, copy, hash, write). Several threads per GPU
keep the link full while others wait for a disk or grow the pool; each step leaves the GIL, so they overlap.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sized
from dataclasses import dataclass

from torpor.driver.copies import Stream
from torpor.driver.devices import Driver

THREADS_PER_GPU = max(2, min(8, os.cpu_count() or 2))
MOST_HASHING = 16
"""Threads of a GPU where they hash: each has a segment, and the interpreter is one for all of them."""

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
    driver: Driver,
    work: Iterable[tuple[int, Work]],
    on_bytes: Callable[[int], None],
    stop: threading.Event,
    *,
    hashing: bool = False,
) -> Moved:
    """Do all the work, given as (device ordinal, function), every GPU's at the same time, in order per GPU.

    With `hashing` the processors are the limit, and get a thread each. Returns, or raises the first failure, after all
    threads have come to rest. Once something failed, or `stop` is set, nothing further is begun.
    """
    queues: dict[int, list[Work]] = {}
    for ordinal, one in work:
        queues.setdefault(ordinal, []).append(one)
    return serve(driver, queues, on_bytes, stop, hashing=hashing)


def serve(
    driver: Driver,
    work: Mapping[int, Iterable[Work]],
    on_bytes: Callable[[int], None],
    stop: threading.Event,
    *,
    hashing: bool = False,
) -> Moved:
    """The same for work by device ordinal that may be found out on the way: one thread of the GPU's at a time asks for
    the next, while the others are at work; what that raises is a failure, too."""
    begun = time.monotonic()
    failures: list[BaseException] = []
    moved: list[int] = []

    def work_off(ordinal: int, feed: _Feed) -> None:
        try:
            driver.bind(ordinal)
            with Stream() as stream:
                while not failures and not stop.is_set():
                    one = feed.next()
                    if one is None:
                        return
                    count = one(stream)
                    moved.append(count)
                    on_bytes(count)
        except BaseException as error:  # noqa: BLE001 - handed to the caller's thread
            failures.append(error)

    most = _hashing_threads(len(work)) if hashing else THREADS_PER_GPU
    threads: list[threading.Thread] = []
    for ordinal, todo in work.items():
        feed = _Feed(todo)
        count = min(most, len(todo)) if isinstance(todo, Sized) else most
        for number in range(count):
            name = f"copy-gpu{ordinal}-{number}"
            threads.append(threading.Thread(target=work_off, args=(ordinal, feed), name=name))
    running: list[threading.Thread] = []
    try:
        for thread in threads:
            thread.start()
            running.append(thread)
    except BaseException as error:  # noqa: BLE001 - those that run are waited for
        failures.append(error)
    for thread in running:
        thread.join()
    if failures:
        raise failures[0]
    return Moved(sum(moved), time.monotonic() - begun)


def _hashing_threads(gpus: int) -> int:
    return max(THREADS_PER_GPU, min(MOST_HASHING, len(os.sched_getaffinity(0)) // max(gpus, 1)))


class _Feed:
    """Work that several threads take from, in order."""

    def __init__(self, work: Iterable[Work]) -> None:
        self._work = iter(work)
        self._lock = threading.Lock()

    def next(self) -> Work | None:
        with self._lock:
            return next(self._work, None)
