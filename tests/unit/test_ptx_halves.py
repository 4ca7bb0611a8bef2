"""16-bit floating point against Python's own halves, and every instruction of the probe once."""

from __future__ import annotations

import math
import operator
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.native.ptx.bridge import Buffer, Module
from tests.native.ptx.probe import INSTRUCTIONS, THREADS, inputs, text

WORDS = st.integers(0, 0xFFFF)


def number(bits: int) -> float:
    return float(struct.unpack("<e", struct.pack("<H", bits))[0])


def half(value: float) -> int:
    """Rounded to nearest, ties to even."""
    if math.isnan(value):
        return 0x7FFF
    try:
        return int(struct.unpack("<H", struct.pack("<e", value))[0])
    except OverflowError:
        return 0xFC00 if value < 0 else 0x7C00


def run(instruction: str, triples: list[tuple[int, int, int]]) -> list[int]:
    words = [word for triple in triples for word in triple]
    out, source = Buffer(bytes(8 * len(triples))), Buffer(struct.pack(f"<{len(words)}Q", *words))
    assert Module(text(instruction)).run("k", out, source, block=len(triples)).fault == "none"
    return [int(value) for value in out.read("Q")]


def single(value: float) -> int:
    return int.from_bytes(struct.pack("<f", value), "little")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(WORDS, WORDS, WORDS), min_size=1, max_size=32))
def test_halves(triples: list[tuple[int, int, int]]) -> None:
    # Sums and products of halves are exact in a double, except where infinities or no numbers come in.
    for name, model in (("add", operator.add), ("sub", operator.sub), ("mul", operator.mul)):
        expected = [half(model(number(a), number(b))) for a, b, _ in triples]
        assert run(f"{name}.f16 %h9, %h1, %h2", triples) == expected


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(width=32), min_size=1, max_size=32))
def test_floats_become_halves(values: list[float]) -> None:
    triples = [(single(value), single(-value), 0) for value in values]
    assert run("cvt.rn.f16.f32 %h9, %r1", triples) == [half(value) for value in values]
    both = [half(value) << 16 | half(-value) for value in values]
    assert run("cvt.rn.f16x2.f32 %r9, %r1, %r2", triples) == both


@settings(max_examples=30, deadline=None)
@given(st.lists(WORDS, min_size=1, max_size=32))
def test_halves_become_floats(words: list[int]) -> None:
    expected = [0x7FFFFFFF if math.isnan(number(word)) else single(number(word)) for word in words]
    assert run("cvt.f32.f16 %r9, %h1", [(word, 0, 0) for word in words]) == expected


@pytest.mark.parametrize("instruction", INSTRUCTIONS)
def test_each_instruction_runs_on_edge_values(instruction: str) -> None:
    out, source = Buffer(b"\xa5" * 8 * THREADS), Buffer(inputs(instruction))
    assert Module(text(instruction)).run("k", out, source, block=THREADS).fault == "none"
    assert 0xA5A5A5A5A5A5A5A5 not in out.read("Q")
