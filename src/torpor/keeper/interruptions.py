"""Ctrl-C while a keeper is at work: counted instead of raised, so that none comes in the midst of a message."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from types import FrameType
from typing import Any

from torpor.process.loop import is_any_readable

_HEARD = (signal.SIGINT, signal.SIGTERM)

_ENOUGH = 3
"""From so many on a KeyboardInterrupt is raised wherever the program is: it may be caught in a callback."""


class Interruptions:
    """In its block, counts the signals whose handlers raise a KeyboardInterrupt. In other threads than the main one,
    to which Python gives no signals, it counts none."""

    def __init__(self) -> None:
        self._count, self._taken = 0, 0
        self._stack = ExitStack()
        self._woken: int | None = None
        self._before = -1

    def __enter__(self) -> Interruptions:
        if threading.current_thread() is threading.main_thread():
            with self._stack as stack:
                self._take_over(stack)
                self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

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
            watched = [descriptor] if self._woken is None else [descriptor, self._woken]
            readable = is_any_readable(watched, None if end is None else max(end - time.monotonic(), 0.0))
            if self._woken in readable:
                self._pass_on(os.read(self._woken, 4096))
            if descriptor in readable:
                return True
            if not readable:
                return False
        return False

    def _take_over(self, stack: ExitStack) -> None:
        self._woken, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        stack.callback(os.close, writer)
        stack.callback(os.close, self._woken)
        self._before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        stack.callback(lambda: signal.set_wakeup_fd(self._before))
        for number in _HEARD:
            before = signal.getsignal(number)
            if callable(before):
                signal.signal(number, self._counting(before))
                stack.callback(signal.signal, number, before)

    def _counting(self, before: Callable[[int, FrameType | None], Any]) -> Callable[[int, FrameType | None], None]:
        def handle(number: int, frame: FrameType | None) -> None:
            try:
                before(number, frame)
            except KeyboardInterrupt:
                self._count += 1
                if self._count >= _ENOUGH:
                    raise

        return handle

    def _pass_on(self, signals: bytes) -> None:
        """To who else wanted to be woken, as asyncio does."""
        if self._before >= 0:
            with suppress(OSError):
                os.write(self._before, signals)
