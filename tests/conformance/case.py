"""A case: something to run on a driver, and what it leaves."""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.conformance.values import SIZES

LONG = 6144
"""Compressed results that are longer than this are recorded as one digest per column."""


@dataclass(frozen=True)
class Tolerance:
    """How far results may be from recorded ones: units in the last place, or in value, whichever is kinder."""

    ulp: float = 0
    absolute: float = 0


@dataclass(frozen=True)
class Form:
    """How results are laid out: `columns` values of type `kind` for each thread; and how exact they are."""

    kind: str
    columns: int = 1
    tolerance: Tolerance = Tolerance()


@dataclass(frozen=True)
class Data:
    """What a kernel wrote."""

    form: Form
    data: bytes


Outcome = Data | list[list[Any]]
"""The second form is what an API program noted: pairs of what and which value."""


@dataclass(frozen=True)
class Case:
    """`alone`: the case breaks its process or its context, so it needs a process of its own.

    `form` is that of its results, if they are data.
    """

    theme: str
    name: str
    run: Callable[[], Outcome]
    alone: bool = False
    form: Form | None = None


def columns_of(form: Form, data: bytes) -> list[list[int]]:
    """The values of each column, as unsigned numbers."""
    size = SIZES[form.kind]
    values = [int.from_bytes(data[at : at + size], "little") for at in range(0, len(data), size)]
    return [values[column :: form.columns] for column in range(form.columns)]


def digests(result: Data) -> list[str]:
    """One for each column."""
    size = SIZES[result.form.kind]
    pieces = [b"".join(v.to_bytes(size, "little") for v in column) for column in columns_of(result.form, result.data)]
    return [hashlib.blake2b(piece, digest_size=12).hexdigest() for piece in pieces]


def packed(data: bytes) -> str:
    return base64.b85encode(zlib.compress(data, 9)).decode()


def unpacked(text: str) -> bytes:
    return zlib.decompress(base64.b85decode(text))


def encode(outcome: Outcome) -> dict[str, Any]:
    """As it is written to the recordings."""
    if isinstance(outcome, list):
        return {"notes": outcome}
    text = packed(outcome.data)
    if len(text) > LONG and outcome.form.tolerance == Tolerance():
        return {"digests": digests(outcome), "begin": outcome.data[: 32 * SIZES[outcome.form.kind]].hex()}
    return {"data": text}
