"""Keeps periodic timers ticking over a restore, in CRIU's images.

A timerfd that has gone off and was not read stands still until it is; the kernel then says that no time is left. CRIU
would set it to no time, which turns it off for good. With a nanosecond left it goes off at once, and then goes on.
"""

from __future__ import annotations

from pathlib import Path

from torpor.process.criu_images import fields, number, raw_entries, rewritten, write_entries

FILES = 0x56303138
_TIMER = 12  # field of a file that is a timerfd; of its own fields:
_TICKS, _LEFT_S, _LEFT_NS, _EVERY_S, _EVERY_NS = 5, 7, 8, 9, 10


def keep_ticking(images: Path) -> None:
    """Rewrite the images of a complete dump where a timer needs it. OSError, TorporError."""
    path = images / "files.img"
    raw = raw_entries(path, FILES)
    mended = [_mended(entry) for entry in raw]
    if mended != raw:
        write_entries(path, FILES, mended)


def _mended(entry: bytes) -> bytes:
    timer = fields(entry).get(_TIMER)
    if not isinstance(timer, bytes):
        return entry
    facts = fields(timer)
    periodic = number(facts, _EVERY_S) or number(facts, _EVERY_NS)
    if not periodic or not number(facts, _TICKS) or number(facts, _LEFT_S) or number(facts, _LEFT_NS):
        return entry
    return rewritten(entry, {_TIMER: rewritten(timer, {_LEFT_NS: 1})})
