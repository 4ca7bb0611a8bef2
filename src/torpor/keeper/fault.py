"""Fault points of the flows: where a test fails, kills or stops the keeper. docs/design/faults.md has the grammar.

`TORPOR_FAULT` is read once, when the keeper starts; without it a point costs one comparison. Every phase of a flow is
two points: its name when it begins, and `<name>:end` when all of it is done.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from torpor.errors import UsageError

_ITEM = re.compile(r"([a-z ]+(?::end)?)(?:@([1-9]\d*)(\+?))?=(?:(kill)|(fail)(?::(\d+))?|(hang):(.+))")
_LOOK_SECONDS = 0.005
_EIO = 5


@dataclass(frozen=True)
class Fault:
    """What happens at the `nth` pass of a point, and at all later ones where `on` says so."""

    point: str
    nth: int
    on: bool
    kill: bool = False
    errno: int = 0
    gate: Path | None = None


def parse(text: str) -> list[Fault]:
    """The faults of a list such as `release=kill;commit@2=fail:28`; UsageError when it cannot be understood."""
    found = []
    for item in filter(None, (part.strip() for part in text.split(";"))):
        match = _ITEM.fullmatch(item)
        if match is None:
            raise UsageError(
                f"TORPOR_FAULT: {item!r} is not STEP[:end][@N[+]]=kill, fail[:ERRNO] or hang:FILE",
                hint="unset TORPOR_FAULT; it is for tests",
            )
        point, nth, on, kill, fail, number, _hang, gate = match.groups()
        found.append(
            Fault(
                point=point,
                nth=int(nth or 1),
                on=bool(on),
                kill=bool(kill),
                errno=int(number or _EIO) if fail else 0,
                gate=Path(gate) if gate else None,
            )
        )
    return found


class Faults:
    """Counts how often each point was passed. Threads share it."""

    def __init__(self, faults: list[Fault]) -> None:
        self._faults = faults
        self._passed: Counter[str] = Counter()
        self._lock = threading.Lock()

    def reach(self, point: str) -> None:
        """Do what is asked for here: OSError for `fail`, no return for `kill`, a wait for `hang`."""
        with self._lock:
            self._passed[point] += 1
            count = self._passed[point]
        for fault in self._faults:
            if fault.point != point or (count != fault.nth and not (fault.on and count > fault.nth)):
                continue
            if fault.kill:
                os.kill(os.getpid(), signal.SIGKILL)
            if fault.gate is not None:
                _wait(fault.gate)
            if fault.errno:
                raise OSError(fault.errno, f"{os.strerror(fault.errno)} (asked for by TORPOR_FAULT)")


def _wait(gate: Path) -> None:
    """Until the file is there; `<file>.reached` says that somebody waits."""
    Path(f"{gate}.reached").touch()
    while not gate.exists():
        time.sleep(_LOOK_SECONDS)


_active: Faults | None = None
_text = ""


def arm() -> None:
    """Take the faults from the environment. They end with this process: a keeper that follows it has none."""
    global _active, _text
    _text = os.environ.pop("TORPOR_FAULT", "")
    _active = Faults(parse(_text)) if _text else None


def text() -> str:
    """What was taken from the environment, for a process that this one starts to help it."""
    return _text


def point(name: str) -> None:
    """A point of a flow."""
    if _active is not None:
        _active.reach(name)
