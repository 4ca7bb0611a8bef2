"""Ctrl-C while a keeper is at work: counted instead of raised, so that none comes in the midst of a message."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

from torpor.process.loop import is_any_readable

_HEARD = (signal.SIGINT, signal.SIGTERM)

_ENOUGH = 3
"""From so many on a KeyboardInterrupt is raised wherever the program is: it may be caught in a callback."""

Handler = Callable[[int, FrameType | None], Any]


class Interruptions:
    """In its block, counts the signals whose handlers raise a KeyboardInterrupt.

    One that nobody took is raised at the end. In other threads than the main one, to which Python gives no signals, it
    counts none.
    """

    def __init__(self) -> None:
        self._count, self._taken = 0, 0
        self._inside = False
        self._handlers: dict[int, _Counting] = {}
        self._pipe: tuple[int, int] | None = None
        self._before = -1

    def __enter__(self) -> Interruptions:
        if threading.current_thread() is threading.main_thread():
            try:
                self._take_over()
            except BaseException:
                self._give_back()
                raise
        self._inside = True
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._inside = False
        self._give_back()
        if kind is None and self.take():
            raise KeyboardInterrupt

    def take(self) -> bool:
        """Whether there was one more."""
        if self._taken == self._count:
            return False
        self._taken += 1
        return True

    def wait(self, descriptor: int, seconds: float | None = None) -> bool:
        """Whether there is something to read, or the end, within so many seconds. One more interruption ends it."""
        end = None if seconds is None else time.monotonic() + seconds
        while self._taken == self._count:
            # Python looks for signals before it begins to wait, and the kernel interrupts a wait that has begun. One
            # that comes in between, or to another thread, would be seen at the wait's end: it writes to the pipe, too.
            watched = [descriptor] if self._pipe is None else [descriptor, self._pipe[0]]
            readable = is_any_readable(watched, None if end is None else max(end - time.monotonic(), 0.0))
            self._pass_on()
            if descriptor in readable:
                return True
            if not readable:
                return False
        return False

    def note(self) -> None:
        self._count += 1
        if self._count >= _ENOUGH and self._inside:
            raise KeyboardInterrupt

    # The handlers come first and go last, so that nothing is raised in between.

    def _take_over(self) -> None:
        for number in _HEARD:
            there = signal.getsignal(number)
            # In the progress of another call the interruptions are this one's.
            before = there.before if isinstance(there, _Counting) else there
            if callable(before):
                self._handlers[number] = _Counting(self, before, there)
                signal.signal(number, self._handlers[number])
        self._pipe = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._before = signal.set_wakeup_fd(self._pipe[1], warn_on_full_buffer=False)

    def _give_back(self) -> None:
        if self._pipe is not None:
            try:
                signal.set_wakeup_fd(self._before)
            except (OSError, ValueError):  # the program has closed it meanwhile
                signal.set_wakeup_fd(-1)
            self._pass_on()
            for descriptor in self._pipe:
                os.close(descriptor)
            self._pipe = None
        try:
            self._restore()
        finally:
            self._restore()  # where the first one that was given back was called, and raised

    def _restore(self) -> None:
        for number, ours in self._handlers.items():
            there = ours.there
            if signal.getsignal(number) is ours:  # the program may have chosen another one
                signal.signal(number, there)

    def _pass_on(self) -> None:
        """To who else wanted to be woken, as asyncio does."""
        if self._pipe is None:
            return
        with suppress(BlockingIOError):
            while signals := os.read(self._pipe[0], 4096):
                if self._before >= 0:
                    with suppress(OSError):
                        os.write(self._before, signals)


class _Counting:
    """A handler in place of the one that is `there`; `before` is what decides whether it is an interruption."""

    def __init__(self, owner: Interruptions, before: Handler, there: Any) -> None:
        self.owner, self.before, self.there = owner, before, there

    def __call__(self, number: int, frame: FrameType | None) -> None:
        try:
            self.before(number, frame)
        except KeyboardInterrupt:
            self.owner.note()
