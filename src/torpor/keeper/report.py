"""What a flow tells while it runs: each phase's start, bytes and end; the same seconds go into results and images."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torpor.errors import Cancelled
from torpor.keeper import fault
from torpor.keeper.messages import CANCEL, Progress
from torpor.keeper.rollback import named

MOVE_SECONDS = 0.1
"""Least time between two `move` events of a phase."""


class Phase:
    """A phase under way. Threads may call `move` at once."""

    def __init__(self, name: str, total: int, send: Callable[[Progress], None], check: Callable[[], None]) -> None:
        self.name = name
        self.total = total
        self.moved = 0
        self.begun = time.monotonic()
        self._send = send
        self._check = check
        self._told = self.begun
        self._lock = threading.Lock()

    def move(self, count: int) -> None:
        """`count` more bytes have moved. Raises Cancelled when nobody wants them any more."""
        self._check()
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


@contextmanager
def told(phase: str, total: int, progress: Callable[[Progress], None] | None) -> Iterator[Callable[[int], None]]:
    """Tell `progress` of a step's start, moved bytes and end; in any thread, but in one at a time."""
    lock = threading.Lock()

    def send(event: Progress) -> None:
        if progress is not None:
            with lock:
                progress(event)

    step = Phase(phase, total, send, lambda: None)
    step.tell("start")
    try:
        yield step.move
    finally:
        step.tell("end")


class Report:
    """Collects the phases of one flow; phases of different names may run at the same time.

    A phase is also where a flow can be cancelled: `cancel` makes the next phase that begins, or the next bytes that
    move, raise Cancelled, until `no_return`.
    """

    def __init__(self, send: Callable[[Progress], None] = lambda _progress: None) -> None:
        self._send = send
        self.begun = time.monotonic()
        self.phases: dict[str, float] = {}
        self._cancelled = False
        self._final = False
        self._waiting: Callable[[Cancelled], None] | None = None
        self._store_only = False

    def cancel(self) -> None:
        """The client wants the flow undone."""
        self._cancelled = True
        if self._waiting is not None and not self._final:
            self._waiting(_cancelled())
        if self._store_only:
            self._let_client_go()

    def store_only(self, only: bool) -> None:
        """From now on, or no longer, nothing is waited for but a store, nor anything at stake but what it is asked for:
        a client that cancels need not wait for that, which may take minutes."""
        self._store_only = only
        if only and self._cancelled:
            self._let_client_go()

    def _tell(self, progress: Progress) -> None:
        """A client takes any progress for a sign that it is worth waiting again: where it is not, it is told so."""
        self._send(progress)
        if self._cancelled and self._store_only:
            self._let_client_go()

    def _let_client_go(self) -> None:
        self._send(Progress(phase=CANCEL, event="move" if self._final else "end"))

    def when_cancelled(self, tell: Callable[[Cancelled], None]) -> None:
        """Also tell whatever may wait for long in the midst of a phase: called by `cancel`, in another thread."""
        self._waiting = tell
        if self._cancelled:
            tell(_cancelled())

    def no_return(self) -> None:
        """What follows cannot be cancelled any more; raises Cancelled when that was asked for until now."""
        self._check()
        self._final = True

    def _check(self) -> None:
        if self._cancelled and not self._final:
            raise _cancelled()

    @contextmanager
    def phase(self, name: str, total: int = 0) -> Iterator[Phase]:
        """Time what happens inside; `total` is the bytes that are going to move. Errors get the phase as their step."""
        phase = Phase(name, total, self._tell, self._check)
        phase.tell("start")
        try:
            with named(name):
                self._check()
                fault.point(name)
                yield phase
                fault.point(f"{name}:end")
        finally:
            self.phases[name] = round(time.monotonic() - phase.begun, 6)
            phase.tell("end")

    def total(self) -> float:
        """Seconds since the flow began."""
        return round(time.monotonic() - self.begun, 6)


def _cancelled() -> Cancelled:
    return Cancelled("cancelled, and rolled back")
