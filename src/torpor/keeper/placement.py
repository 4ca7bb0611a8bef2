"""Where each block's bytes go: blocks laid end to end per device, and the whole cut into segments.

Pure arithmetic, shared by the way out (blocks → segments) and the way in (extents → blocks). On the way out one
segment holds bytes of one device only, so that the devices copy side by side and a segment is one copy call.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from torpor.image.manifest import SEGMENT, Extent


@dataclass(frozen=True)
class PlacedBlock:
    """A block of process `pid` (as the job sees it), on `device` (the process's ordinal), `size` bytes."""

    pid: int
    address: int
    size: int
    device: int


@dataclass
class Row:
    """The blocks that one GPU (`uuid`) gets, end to end in this order; `base` is where each begins in the row."""

    uuid: str
    blocks: list[PlacedBlock] = field(default_factory=list)
    bases: list[int] = field(default_factory=list)
    size: int = 0

    def append(self, block: PlacedBlock) -> None:
        self.blocks.append(block)
        self.bases.append(self.size)
        self.size += block.size


@dataclass(frozen=True)
class Piece:
    """One copy: `length` bytes between segment `segment` at `offset` and the row of GPU `uuid` at `at`."""

    segment: int
    offset: int
    uuid: str
    at: int
    length: int


def rows(blocks: Iterable[tuple[str, PlacedBlock]]) -> list[Row]:
    """Lay the blocks (each with its GPU's UUID) into one row per GPU, in the order given."""
    found: dict[str, Row] = {}
    for uuid, block in blocks:
        found.setdefault(uuid, Row(uuid)).append(block)
    return list(found.values())


def cut(all_rows: list[Row]) -> list[Piece]:
    """The rows cut into segments: one piece each, full but for a row's last."""
    pieces: list[Piece] = []
    for row in all_rows:
        for at in range(0, row.size, SEGMENT):
            pieces.append(Piece(len(pieces), 0, row.uuid, at, min(SEGMENT, row.size - at)))
    return pieces


def extents(all_rows: list[Row]) -> dict[tuple[int, int], list[Extent]]:
    """For each block, by (pid, address), the parts of segments that `cut` gives it."""
    found: dict[tuple[int, int], list[Extent]] = {}
    first = 0
    for row in all_rows:
        for block, base in zip(row.blocks, row.bases, strict=True):
            found[block.pid, block.address] = _extents(first, base, block.size)
        first += -(-row.size // SEGMENT)
    return found


def _extents(first: int, base: int, size: int) -> list[Extent]:
    parts: list[Extent] = []
    while size:
        offset = base % SEGMENT
        length = min(SEGMENT - offset, size)
        parts.append((first + base // SEGMENT, offset, length))
        base += length
        size -= length
    return parts


def assemble(all_rows: list[Row], block_extents: dict[tuple[int, int], list[Extent]]) -> dict[int, list[Piece]]:
    """The copies that fill the rows from segments, by segment; what touches on both sides is one copy."""
    found: dict[int, list[Piece]] = {}
    for row in all_rows:
        for block, base in zip(row.blocks, row.bases, strict=True):
            at = base
            for segment, offset, length in block_extents[block.pid, block.address]:
                found.setdefault(segment, []).append(Piece(segment, offset, row.uuid, at, length))
                at += length
    return {segment: _merged(pieces) for segment, pieces in sorted(found.items())}


def _merged(pieces: list[Piece]) -> list[Piece]:
    merged: list[Piece] = []
    for piece in sorted(pieces, key=lambda piece: piece.offset):
        last = merged[-1] if merged else None
        if (
            last is not None
            and last.uuid == piece.uuid
            and last.offset + last.length == piece.offset
            and last.at + last.length == piece.at
        ):
            merged[-1] = Piece(last.segment, last.offset, last.uuid, last.at, last.length + piece.length)
        else:
            merged.append(piece)
    return merged
