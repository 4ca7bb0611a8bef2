"""Ranges cut into parts that several can work on side by side.

Standard library only: supervisors use it, too.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Piece = tuple[str, int, int]
"""Of a file: its path, where the piece begins, and its length, in whatever unit the caller counts."""


def cut(start: int, length: int, size: int) -> Iterator[tuple[int, int]]:
    """A range in parts (start and length), cut at the multiples of `size`."""
    end = start + length
    while start < end:
        part = min(size - start % size, end - start)
        yield start, part
        start += part


def dealt(pieces: Sequence[Piece], count: int, least: int) -> list[list[Piece]]:
    """Pieces in at most `count` shares of about the same length, in order; none but the last is less than `least`."""
    size = max(least, -(-sum(length for _, _, length in pieces) // count))
    shares: list[list[Piece]] = []
    at = 0  # in all pieces, end to end
    for path, first, length in pieces:
        for begin, part in cut(at, length, size):
            if begin % size == 0:
                shares.append([])
            shares[-1].append((path, first + begin - at, part))
        at += length
    return shares
