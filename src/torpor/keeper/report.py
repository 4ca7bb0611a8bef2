"""What a flow tells while it runs: each phase's start, bytes and end; the same seconds go into results and images."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torpor.keeper.messages import Progress

MOVE_SECONDS = 0.1
"""Least time between two `move` events of a phase."""


class Phase:
    """A phase under way. Threads may call `move` at once."""

    def __init__(self, name: str, total: int, send: Callable[[Progress], None]) -> None:
        self.name = name
        self.total = total
        self.moved = 0
        self.begun = time.monotonic()
        self._send = send
        self._told = self.begun
        self._lock = threading.Lock()

    def move(self, count: int) -> None:
        """`count` more bytes have moved."""
        with self._lock:
            self.moved += count
            now = time.monotonic()
            if now - self._told < MOVE_SECONDS and self.moved < self.total:
                return
            self._told = now
        self.tell("move")

    def tell(self, event: str) -> None:
        seconds = time.monotonic() - self.begun
        message = Progress(phase=self.name, event="move", seconds=seconds, bytes=self.moved, total=self.total)
        if event == "start":
            message.event = "start"
        elif event == "end":
            message.event = "end"
        self._send(message)


class Report:
    """Collects the phases of one flow; phases of different names may run at the same time."""

    def __init__(self, send: Callable[[Progress], None] = lambda _progress: None) -> None:
        self._send = send
        self.begun = time.monotonic()
        self.phases: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str, total: int = 0) -> Iterator[Phase]:
        """Time what happens inside; `total` is the bytes that are going to move."""
        phase = Phase(name, total, self._send)
        phase.tell("start")
        try:
            yield phase
        finally:
            self.phases[name] = round(time.monotonic() - phase.begun, 6)
            phase.tell("end")

    def total(self) -> float:
        """Seconds since the flow began."""
        return round(time.monotonic() - self.begun, 6)
