"""Ctrl-C and SIGTERM during a run, remembered.

A verb that they hit too late to be undone ends well, and nothing more is said of them: right for a command that is this
verb, but a benchmark has many more to come.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any, Self


class Interrupts:
    """In its block both raise a KeyboardInterrupt, and `heard` tells whether one came."""

    def __init__(self) -> None:
        self.heard = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(number) is not signal.SIG_IGN:  # as SIGINT is in a shell's background
                    self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def check(self) -> None:
        """KeyboardInterrupt where one came, also where it has been raised before."""
        if self.heard:
            raise KeyboardInterrupt

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.heard = True
        signal.default_int_handler(number, frame)
