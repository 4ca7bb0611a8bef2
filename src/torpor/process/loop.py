"""The supervisor's event loop: descriptors by `poll`, deadlines, and signals as events; and a wait for one of them."""

from __future__ import annotations

import os
import select
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

READ = select.POLLIN
WRITE = select.POLLOUT


def is_readable(descriptor: int, seconds: float | None = None) -> bool:
    """Whether there is something to read, or the end, within so many seconds."""
    return bool(is_any_readable([descriptor], seconds))


def is_any_readable(descriptors: Iterable[int], seconds: float | None = None) -> set[int]:
    """Those with something to read, or the end, as soon as there is one within so many seconds. Any descriptor:
    `select.select`, which most would take, has no place for one beyond 1023, and jobs with many blocks have keepers
    with as many of them."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, READ)
    return {descriptor for descriptor, _ in poll.poll(None if seconds is None else seconds * 1000)}


class Loop:
    """One thread, no locks. A callback gets the events that came and may watch or forget any descriptor."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._watched: dict[int, tuple[int, Callable[[int], None]]] = {}  # fd: (turn it was first watched in, ...)
        self._turns = 0
        self._timers: list[tuple[float, Callable[[], None]]] = []

    def watch(self, fd: int, events: int, callback: Callable[[int], None]) -> None:
        """Call back on `events`, in place of what was watched on `fd`; hang-up and error are always reported."""
        self._poll.register(fd, events)
        since = self._watched[fd][0] if fd in self._watched else self._turns
        self._watched[fd] = (since, callback)

    def forget(self, fd: int) -> None:
        """Stop watching `fd`; harmless when it is not watched. Call it before the descriptor is closed."""
        if self._watched.pop(fd, None) is not None:
            self._poll.unregister(fd)

    def after(self, seconds: float, callback: Callable[[], None]) -> None:
        self._timers.append((time.monotonic() + seconds, callback))

    def turn(self) -> None:
        """Wait for something to happen and handle it."""
        wait = None
        if self._timers:
            wait = max(0.0, min(when for when, _ in self._timers) - time.monotonic()) * 1000 + 1
        happened = self._poll.poll(wait)
        self._turns += 1
        for fd, events in happened:
            found = self._watched.get(fd)
            # An earlier callback of this turn may have closed the descriptor, and another of its number been opened.
            if found is not None and found[0] < self._turns:
                found[1](events)
        now = time.monotonic()
        due = [timer for timer in self._timers if timer[0] <= now]
        self._timers = [timer for timer in self._timers if timer[0] > now]
        for _, callback in due:
            callback()


def signal_events(signals: list[int]) -> int:
    """Turn signals into bytes (their numbers) on the descriptor returned, which does not block."""
    reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in signals:
        signal.signal(number, lambda _number, _frame: None)
    return reader
