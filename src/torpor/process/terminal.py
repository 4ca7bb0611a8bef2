"""The terminal that a job gets: one like that of whoever starts it."""

from __future__ import annotations

import os
import termios
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Terminal:
    """`streams` are those of `stdin`, `stdout`, `stderr` that are on it; the rest is what it starts with.

    `attributes` are those of `termios.tcgetattr`, control characters as numbers, or empty for the kernel's own;
    `window` is (rows, columns).
    """

    streams: tuple[str, ...]
    attributes: tuple[Any, ...] = ()
    window: tuple[int, int] = (0, 0)


def ours() -> Terminal | None:
    """What a program in our place would have: None unless standard input and output are both a terminal.

    Where one of them leads elsewhere (`… | less`, `… < file`) the program is part of something larger, which has the
    terminal; then it gets pipes.
    """
    if not (os.isatty(0) and os.isatty(1)):
        return None
    *flags, characters = termios.tcgetattr(0)
    numbers = [one if isinstance(one, int) else one[0] for one in characters]
    streams = ("stdin", "stdout", "stderr") if os.isatty(2) else ("stdin", "stdout")
    return Terminal(streams, (*flags, numbers), window(1))


def window(descriptor: int) -> tuple[int, int]:
    """(rows, columns) of the terminal behind a descriptor, (0, 0) where nobody knows."""
    try:
        size = os.get_terminal_size(descriptor)
    except OSError:
        return 0, 0
    return size.lines, size.columns
