"""Our terminal in front of a job that is on one of its own: keys go there as they are, and what it draws comes back.

The job's terminal does what ours would do (echo, Ctrl-C, the end of a line), so ours does nothing of it meanwhile: it
is *raw*. It is as it was before on every way out, and whenever we are stopped or in the background.
"""

from __future__ import annotations

import os
import signal
import termios
import time
import tty
from collections import deque
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self

from torpor.process.terminal import window

LEAVE_KEY = 0x1D
"""Ctrl-]: three times within `LEAVE_SECONDS` lets go of the job, which runs on."""
LEAVE_TIMES = 3
LEAVE_SECONDS = 1.0

_BACKGROUND_SECONDS = 0.1
"""How soon it is noticed that a shell has brought us to the foreground; it may do so without a signal."""


class Front:
    """Standard input while we stay with a job. `resize` is told the window's size, at first and whenever it changes.

    Without `raw` the terminal, if there is one, is left alone and only read from: the job has pipes.
    """

    def __init__(self, *, raw: bool, resize: Callable[[int, int], None]) -> None:
        self._terminal = os.isatty(0)
        self._wants_raw = raw and self._terminal
        self._is_raw = False
        self._resize = resize
        self._saved: list[Any] | None = None
        self._before: dict[int, Any] = {}
        self._keys: deque[float] = deque(maxlen=LEAVE_TIMES)

    def __enter__(self) -> Self:
        if self._terminal:
            # In the background a read then fails, instead of stopping us and with us the job's output.
            self._before[signal.SIGTTIN] = signal.signal(signal.SIGTTIN, signal.SIG_IGN)
        if self._wants_raw:
            self._saved = termios.tcgetattr(0)
            for number, handler in (
                (signal.SIGWINCH, lambda *_: self._tell_size()),
                (signal.SIGTSTP, self._stop),
                (signal.SIGCONT, lambda *_: self._take()),
            ):
                self._before[number] = signal.signal(number, handler)
            self._take()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._give_back()
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def read(self, size: int) -> bytes:
        """The next input, b"" at its end; waits while we are in the background. OSError when there is none."""
        while True:
            if self._terminal and not _in_foreground():
                time.sleep(_BACKGROUND_SECONDS)
                continue
            if self._wants_raw and not self._is_raw:
                self._take()
            try:
                return os.read(0, size)
            except OSError:
                if not self._terminal or _in_foreground():
                    raise

    def asks_to_leave(self, data: bytes) -> bool:
        """Whether this input ends with what lets go of the job; everything is to be passed on otherwise."""
        if not self._wants_raw:
            return False
        for byte in data:
            if byte != LEAVE_KEY:
                self._keys.clear()
                continue
            now = time.monotonic()
            self._keys.append(now)
            if len(self._keys) == LEAVE_TIMES and now - self._keys[0] <= LEAVE_SECONDS:
                return True
        return False

    def _take(self) -> None:
        """The terminal is ours to use: make it raw, and tell the job its size."""
        if not _in_foreground():
            return
        tty.setraw(0, termios.TCSADRAIN)
        self._is_raw = True
        self._tell_size()

    def _give_back(self) -> None:
        if self._is_raw and self._saved is not None and _in_foreground():
            termios.tcsetattr(0, termios.TCSADRAIN, self._saved)
        self._is_raw = False

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self._give_back()
        os.kill(os.getpid(), signal.SIGSTOP)

    def _tell_size(self) -> None:
        rows, columns = window(0)
        if rows and columns:
            try:
                self._resize(rows, columns)
            except OSError:
                pass  # the job has just ended


def _in_foreground() -> bool:
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return True  # not our controlling terminal: nobody else's business
