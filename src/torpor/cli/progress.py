"""Progress of the longer verbs: nothing for the first half second, then a bar on a terminal or plain lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

from torpor.cli import interrupt, output
from torpor.keeper.messages import CANCEL, OVER, Progress

QUIET_SECONDS = 0.5
LINE_SECONDS = 2.0
SHORT_SECONDS = 0.1


class Display(Protocol):
    def show(self, event: Progress) -> None: ...

    def close(self) -> None: ...


class Report:
    """Give it to an API call as `progress`; afterwards `elapsed` is the whole call in seconds."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._begun = time.monotonic()
        self._display: Display | None = None
        self.elapsed = 0.0
        self.phases: dict[str, float] = {}

    def __call__(self, event: Progress) -> None:
        if event.phase == OVER:
            if event.event == "end":
                interrupt.hold()
            else:
                output.note(f"{self._label}: too late to undo it")
            return
        if event.phase == CANCEL and event.event == "move":
            output.note(f"{self._label}: too late to undo it; the keeper goes on, and `torpor ps` says what came of it")
            return
        if event.phase == CANCEL:
            output.note(f"{self._label}: cancelling; Ctrl-C again leaves that to the keeper")
            return
        if event.event == "end":
            self.phases[event.phase] = event.seconds
        if output.as_json or time.monotonic() - self._begun < QUIET_SECONDS:
            return
        if self._display is None:
            self._display = Bars(self._label) if sys.stderr.isatty() else Lines(self._label, self._begun)
        self._display.show(event)

    def close(self) -> None:
        self.elapsed = time.monotonic() - self._begun
        if self._display is not None:
            self._display.close()


def moved(event: Progress) -> str:
    """`2.50 s, 4.0 GiB of 8.0 GiB, 1.7 GB/s`; the seconds alone for a step that moves no bytes."""
    text = f"{event.seconds:.2f} s"
    if event.total:
        text += f", {output.size(event.bytes)} of {output.size(event.total)}"
        text += f", {output.rate(event.bytes, event.seconds)}"
    return text


class Lines:
    """One line at the end of each step that is worth one, and one every two seconds while a step moves bytes, the
    first of them two seconds after `begun`."""

    def __init__(self, label: str, begun: float) -> None:
        self._label = label
        self._last = begun

    def show(self, event: Progress) -> None:
        now = time.monotonic()
        if event.event == "end":
            wanted = event.seconds >= SHORT_SECONDS
        else:
            wanted = bool(event.bytes) and now - self._last >= LINE_SECONDS
        if not wanted:
            return
        self._last = now
        output.aside(f"{self._label}: {event.phase} {moved(event)}")

    def close(self) -> None:
        pass


class Bars:
    """Rich's bars, one per step; gone from the screen when the verb is done."""

    def __init__(self, label: str) -> None:
        from rich import progress as bars
        from rich.console import Console

        self._bars = bars.Progress(
            bars.TextColumn(label),
            bars.TextColumn("{task.description}"),
            bars.BarColumn(),
            bars.TextColumn("{task.fields[moved]}"),
            console=Console(stderr=True),
            transient=True,
        )
        self._bars.start()
        self._tasks: dict[str, Any] = {}

    def show(self, event: Progress) -> None:
        task = self._tasks.get(event.phase)
        if task is None:
            task = self._tasks[event.phase] = self._bars.add_task(event.phase, total=None, moved="")
        if event.total:
            self._bars.update(task, completed=event.bytes, total=event.total, moved=moved(event))
        elif event.event == "end":
            self._bars.update(task, completed=1, total=1, moved=moved(event))

    def close(self) -> None:
        self._bars.stop()


@contextmanager
def shown(label: str) -> Iterator[Report]:
    """A `Report` whose display is taken down however the block ends."""
    report = Report(label)
    try:
        yield report
    finally:
        report.close()


class Figures(NamedTuple):
    """What a verb moved, for JSON and for people."""

    data: dict[str, Any]
    text: str


def figures(seconds: float, gpu_bytes: int, cpu_bytes: int, phases: dict[str, float]) -> Figures:
    """Seconds are the whole verb's as its user waited; the rate is that of the `copy` phase where there is one."""
    copy = phases.get("copy", 0.0)
    parts = [f"{seconds:.2f} s", f"{output.size(gpu_bytes)} of GPU memory"]
    if copy > 0 and gpu_bytes:
        parts[-1] += f" at {output.rate(gpu_bytes, copy)}"
    if cpu_bytes:
        parts.append(f"{output.size(cpu_bytes)} of process memory")
    data = {"seconds": round(seconds, 4), "gpu_bytes": gpu_bytes, "cpu_bytes": cpu_bytes, "phases": phases}
    return Figures(data, ", ".join(parts))
