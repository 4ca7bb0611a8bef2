"""The table in which the names that `cuGetProcAddress` may be asked for are found."""

from __future__ import annotations

from api.load import answers

PLACE_BITS = 11  # of 477 names, so that most are found at the first place
_WORD = 8
_FACTORS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)
_MASK = (1 << 64) - 1


def _place(name: str) -> int:
    """What `native/interposer/prim/names.cpp` works out: from the first, the middle and the last eight bytes."""
    text = name.encode()
    starts = (0, (len(text) - _WORD) // 2, len(text) - _WORD) if len(text) >= _WORD else (0, 0, 0)
    value = len(text) * _FACTORS[0]
    for start, factor in zip(starts, _FACTORS, strict=True):
        value ^= int.from_bytes(text[start : start + _WORD], "little") * factor & _MASK
    return (value & _MASK) >> (64 - PLACE_BITS)


def places() -> list[int]:
    """At each place the number of a name's first row, from 1 on, or 0; a name whose place is taken has the next."""
    table = [0] * (1 << PLACE_BITS)
    row = 1
    for base, entries in sorted(answers().items()):
        at = _place(base)
        while table[at]:
            at = (at + 1) % len(table)
        table[at] = row
        row += len(entries)
    return table
