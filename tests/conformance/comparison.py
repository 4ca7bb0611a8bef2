"""Outcomes against recorded ones."""

from __future__ import annotations

import math
import struct
from typing import Any

from tests.conformance.case import Form, Tolerance, columns_of, unpacked

_FLOATS = {"f16": ("<H", "<e"), "f32": ("<I", "<f"), "f64": ("<Q", "<d")}
MOST = 3
"""So many values of a column are told."""


def differences(form: Form | None, recorded: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """What is not as recorded, in words; nothing when all is well."""
    if "failed" in recorded or "failed" in found or recorded.keys() != found.keys():
        return [f"{_short(found)} instead of {_short(recorded)}"]
    if "notes" in recorded:
        return _notes(recorded["notes"], found["notes"])
    assert form is not None
    if "digests" not in recorded:
        return list(_columns(form, unpacked(recorded["data"]), unpacked(found["data"])).values())
    seen = _columns(form, bytes.fromhex(recorded["begin"]), bytes.fromhex(found["begin"]))
    pairs = enumerate(zip(recorded["digests"], found["digests"], strict=True))
    return [seen.get(n, f"column {n}: the digest") for n, (one, other) in pairs if one != other]


def _short(outcome: dict[str, Any]) -> str:
    return str(outcome.get("failed", next(iter(outcome))))[:400]


def _notes(recorded: list[list[Any]], found: list[list[Any]]) -> list[str]:
    told = [
        f"{b[0]}: {b[1]} instead of {a[1]}" for a, b in zip(recorded, found, strict=False) if a != b and a[0] == b[0]
    ]
    if [a[0] for a in recorded] != [b[0] for b in found]:
        told.append(f"noted {[b[0] for b in found]} instead of {[a[0] for a in recorded]}")
    return told


def _columns(form: Form, recorded: bytes, found: bytes) -> dict[int, str]:
    """What is different in each column, by its number."""
    told = {}
    for n, (expected, got) in enumerate(zip(columns_of(form, recorded), columns_of(form, found), strict=True)):
        values = [
            f"thread {thread}: 0x{b:x} instead of 0x{a:x}"
            for thread, (a, b) in enumerate(zip(expected, got, strict=True))
            if a != b and not near(form.kind, form.tolerance, a, b)
        ]
        if values:
            told[n] = f"column {n}: {len(values)} values, {'; '.join(values[:MOST])}"
    return told


def near(kind: str, tolerance: Tolerance, a: int, b: int) -> bool:
    """Whether two bit patterns of a type of floats are as close as they must be."""
    if tolerance == Tolerance() or kind not in _FLOATS:
        return False
    bits, letter = _FLOATS[kind]
    x, y = (struct.unpack(letter, struct.pack(bits, word))[0] for word in (a, b))
    if math.isnan(x) or math.isnan(y):
        return math.isnan(x) and math.isnan(y)
    sign = 1 << (8 * struct.calcsize(bits) - 1)
    steps = abs((sign - a if a & sign else a) - (sign - b if b & sign else b))
    return steps <= tolerance.ulp or abs(x - y) <= tolerance.absolute
