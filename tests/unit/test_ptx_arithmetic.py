"""Arithmetic of the software GPU against a model in Python, on random values."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.native.ptx.bridge import Buffer, Module
from tests.native.ptx.text import module

EDGES = (0, 1, 2, 31, 32, 33, 63, 64, 127, 255, 0x7FFF, 0x8000, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1)
WORDS = st.one_of(st.sampled_from(EDGES), st.integers(0, 2**64 - 1))
TRIPLES = st.lists(st.tuples(WORDS, WORDS, WORDS), min_size=1, max_size=32)


def signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def divided(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def permuted(a: int, b: int, choice: int) -> int:
    data = a | b << 32
    result = 0
    for i in range(4):
        nibble = choice >> (4 * i) & 15
        byte = data >> (8 * (nibble & 7)) & 255
        result |= ((255 if byte & 128 else 0) if nibble & 8 else byte) << (8 * i)
    return result


def pieces(x: int, width: int, of: bool) -> list[int]:
    """The bytes or halves of a word, from the lowest one, with their sign if they have one."""
    parts = [x >> at & ((1 << width) - 1) for at in range(0, 32, width)]
    return [signed(part, width) for part in parts] if of else parts


def packed(values: list[int]) -> int:
    width = 32 // len(values)
    return sum((value & ((1 << width) - 1)) << (width * n) for n, value in enumerate(values))


def each(a: int, b: int, width: int, of: bool) -> list[tuple[int, int]]:
    return list(zip(pieces(a, width, of), pieces(b, width, of), strict=True))


Model = Callable[[int, int, int], int]
M32, M64 = 2**32 - 1, 2**64 - 1
# instruction with its operands, and what it computes; 32-bit operands are the low halves
CASES: dict[str, Model] = {
    "add.u32 {d}, {a}, {b}": lambda a, b, _: a + b,
    "sub.s32 {d}, {a}, {b}": lambda a, b, _: a - b,
    "mul.lo.u32 {d}, {a}, {b}": lambda a, b, _: a * b,
    "mul.hi.u32 {d}, {a}, {b}": lambda a, b, _: a * b >> 32,
    "mul.hi.s32 {d}, {a}, {b}": lambda a, b, _: signed(a, 32) * signed(b, 32) >> 32,
    "mad.lo.s32 {d}, {a}, {b}, {c}": lambda a, b, c: a * b + c,
    "mad.hi.u32 {d}, {a}, {b}, {c}": lambda a, b, c: (a * b >> 32) + c,
    "and.b32 {d}, {a}, {b}": lambda a, b, _: a & b,
    "xor.b32 {d}, {a}, {b}": lambda a, b, _: a ^ b,
    "not.b32 {d}, {a}": lambda a, _b, _c: ~a,
    "lop3.b32 {d}, {a}, {b}, {c}, 0x96": lambda a, b, c: a ^ b ^ c,
    "lop3.b32 {d}, {a}, {b}, {c}, 0xE8": lambda a, b, c: a & b | a & c | b & c,
    "shl.b32 {d}, {a}, {b}": lambda a, b, _: a << b if b < 32 else 0,
    "shr.u32 {d}, {a}, {b}": lambda a, b, _: a >> min(b, 32),
    "shr.s32 {d}, {a}, {b}": lambda a, b, _: signed(a, 32) >> min(b, 31),
    "shf.l.wrap.b32 {d}, {a}, {b}, {c}": lambda a, b, c: ((b << 32 | a) << (c & 31)) >> 32,
    "shf.r.clamp.b32 {d}, {a}, {b}, {c}": lambda a, b, c: (b << 32 | a) >> min(c, 32),
    "popc.b32 {d}, {a}": lambda a, _b, _c: a.bit_count(),
    "clz.b32 {d}, {a}": lambda a, _b, _c: 32 - a.bit_length(),
    "brev.b32 {d}, {a}": lambda a, _b, _c: int(f"{a:032b}"[::-1], 2),
    "bfind.u32 {d}, {a}": lambda a, _b, _c: a.bit_length() - 1,
    "prmt.b32 {d}, {a}, {b}, {c}": permuted,
    "min.s32 {d}, {a}, {b}": lambda a, b, _: min(signed(a, 32), signed(b, 32)),
    "max.u32 {d}, {a}, {b}": lambda a, b, _: max(a, b),
    "sad.u32 {d}, {a}, {b}, {c}": lambda a, b, c: abs(a - b) + c,
    "div.u32 {d}, {a}, {b}": lambda a, b, _: a // b if b else -1,
    "rem.u32 {d}, {a}, {b}": lambda a, b, _: a % b if b else -1,
    "abs.s32 {d}, {a}": lambda a, _b, _c: abs(signed(a, 32)),
    "dp4a.s32.u32 {d}, {a}, {b}, {c}": lambda a, b, c: (
        c + sum(signed(a >> s, 8) * (b >> s & 255) for s in (0, 8, 16, 24))
    ),
    "bfi.b32 {d}, {a}, {b}, 5, 9": lambda a, b, _: b & ~(511 << 5) | (a & 511) << 5,
    "mad24.lo.u32 {d}, {a}, {b}, {c}": lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF) + c,
    "mad24.hi.s32 {d}, {a}, {b}, {c}": lambda a, b, c: (signed(a, 24) * signed(b, 24) >> 16) + c,
    "vadd4.u32.u32.u32 {d}, {a}, {b}, {c}": lambda a, b, _: packed([x + y for x, y in each(a, b, 8, False)]),
    "vadd2.s32.s32.s32.sat {d}, {a}, {b}, {c}": lambda a, b, _: packed(
        [min(max(x + y, -(2**15)), 2**15 - 1) for x, y in each(a, b, 16, True)]
    ),
    "vsub4.u32.u32.u32.sat {d}, {a}, {b}, {c}": lambda a, b, _: packed(
        [max(x - y, 0) for x, y in each(a, b, 8, False)]
    ),
    "vabsdiff4.u32.u32.u32 {d}, {a}, {b}, {c}": lambda a, b, _: packed([abs(x - y) for x, y in each(a, b, 8, False)]),
    "vabsdiff2.s32.s32.s32.add {d}, {a}, {b}, {c}": lambda a, b, c: (
        c + sum(abs(x - y) for x, y in each(a, b, 16, True))
    ),
    "vmin4.s32.s32.s32 {d}, {a}, {b}, {c}": lambda a, b, _: packed([min(x, y) for x, y in each(a, b, 8, True)]),
    "vmax2.u32.u32.u32.add {d}, {a}, {b}, {c}": lambda a, b, c: c + sum(max(x, y) for x, y in each(a, b, 16, False)),
    "vavrg4.u32.u32.u32 {d}, {a}, {b}, {c}": lambda a, b, _: packed(
        [(x + y + 1) >> 1 for x, y in each(a, b, 8, False)]
    ),
    "bfe.u32 {d}, {a}, 7, 11": lambda a, _b, _c: a >> 7 & 2047,
    "bfe.s32 {d}, {a}, 7, 11": lambda a, _b, _c: signed(a >> 7, 11),
}
CASES64: dict[str, Model] = {
    "add.u64 {d}, {a}, {b}": lambda a, b, _: a + b,
    "mul.lo.u64 {d}, {a}, {b}": lambda a, b, _: a * b,
    "mul.hi.u64 {d}, {a}, {b}": lambda a, b, _: a * b >> 64,
    "mul.hi.s64 {d}, {a}, {b}": lambda a, b, _: signed(a, 64) * signed(b, 64) >> 64,
    "div.s64 {d}, {a}, {b}": lambda a, b, _: divided(signed(a, 64), signed(b, 64)) if b else -1,
    "xor.b64 {d}, {a}, {b}": lambda a, b, _: a ^ b,
    "min.s64 {d}, {a}, {b}": lambda a, b, _: min(signed(a, 64), signed(b, 64)),
}


@cache
def loaded(instruction: str, wide: bool) -> Module:
    names = {k: f"%d{i}" if wide else f"%r{i}" for i, k in enumerate("abcd")}
    unit = "u64" if wide else "u32"
    loads = "".join(f"ld.global.{unit} {names[k]}, [%d{10 + i}];" for i, k in enumerate("abc"))
    places = "mad.wide.u32 %d10, %t, 24, %a1; add.u64 %d11, %d10, 8; add.u64 %d12, %d10, 16;"
    return module(f"{places} {loads} {instruction.format(**names)}; st.global.{unit} [%o], {names['d']};")


def check(instruction: str, model: Model, triples: list[tuple[int, int, int]], wide: bool) -> None:
    mask = M64 if wide else M32
    inputs = Buffer(struct.pack(f"<{3 * len(triples)}Q", *(word for triple in triples for word in triple)))
    out = Buffer(bytes(8 * len(triples)))
    assert loaded(instruction, wide).run("k", out, inputs, block=len(triples)).fault == "none"
    expected = [model(a & mask, b & mask, c & mask) & mask for a, b, c in triples]
    assert [int(value) & mask for value in out.read("Q")] == expected


@pytest.mark.parametrize("instruction", CASES)
@settings(max_examples=20, deadline=None)
@given(triples=TRIPLES)
def test_integers(instruction: str, triples: list[tuple[int, int, int]]) -> None:
    check(instruction, CASES[instruction], triples, wide=False)


@pytest.mark.parametrize("instruction", CASES64)
@settings(max_examples=20, deadline=None)
@given(triples=TRIPLES)
def test_long_integers(instruction: str, triples: list[tuple[int, int, int]]) -> None:
    check(instruction, CASES64[instruction], triples, wide=True)


def bits(value: float) -> int:
    return int(struct.unpack("<I", struct.pack("<f", value))[0])


def floats(instruction: str, operands: list[tuple[float, float, float]]) -> list[float]:
    loads = "".join(f"ld.global.f32 %f{i}, [%d10+{4 * i}];" for i in range(3))
    text = f"mad.wide.u32 %d10, %t, 12, %a1; {loads} {instruction} %f3, %f0, %f1"
    text += (", %f2" if instruction.startswith("fma") else "") + "; st.global.f32 [%o], %f3;"
    inputs = Buffer(struct.pack(f"<{3 * len(operands)}f", *(x for triple in operands for x in triple)))
    out = Buffer(bytes(8 * len(operands)))
    assert module(text).run("k", out, inputs, block=len(operands)).fault == "none"
    return [float(x) for x in out.read("f")[::2]]


FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False, min_value=-(2.0**60), max_value=2.0**60)


@settings(max_examples=40, deadline=None)
@given(pairs=st.lists(st.tuples(FLOATS, FLOATS, FLOATS), min_size=1, max_size=32))
def test_roundings_enclose_the_exact_sum(pairs: list[tuple[float, float, float]]) -> None:
    from fractions import Fraction

    down, up, zero = (floats(f"add.{mode}.f32", pairs) for mode in ("rm", "rp", "rz"))
    for (a, b, _), low, high, cut in zip(pairs, down, up, zero, strict=True):
        exact = Fraction(a) + Fraction(b)
        assert Fraction(low) <= exact <= Fraction(high)
        assert high == low if Fraction(low) == exact else bits(abs(high)) - bits(abs(low)) in (-1, 1)
        assert cut == (low if exact >= 0 else high)


@settings(max_examples=40, deadline=None)
@given(triples=st.lists(st.tuples(FLOATS, FLOATS, FLOATS), min_size=1, max_size=32))
def test_fused_multiply_add_rounds_once(triples: list[tuple[float, float, float]]) -> None:
    from fractions import Fraction

    for (a, b, c), result in zip(triples, floats("fma.rn.f32", triples), strict=True):
        exact = Fraction(a) * Fraction(b) + Fraction(c)
        for step in (-1, 1):
            if math.isfinite(result) and result != 0:
                next_to = struct.unpack("<f", struct.pack("<I", bits(result) + step))[0]
                if math.isfinite(next_to):
                    assert abs(Fraction(result) - exact) <= abs(Fraction(next_to) - exact)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cvt.rni.s32.f32 %r1, 0f40200000", 2),  # 2.5, to even
        ("cvt.rni.s32.f32 %r1, 0f40600000", 4),  # 3.5
        ("cvt.rzi.s32.f32 %r1, 0fC0200000", -2),
        ("cvt.rmi.s32.f32 %r1, 0fC0200000", -3),
        ("cvt.rzi.u32.f32 %r1, 0fC0200000", 0),  # clamped
        ("cvt.rzi.s32.f32 %r1, 0f7F800000", 2**31 - 1),  # infinity
        ("cvt.rzi.s32.f32 %r1, 0f7FC00000", 0),  # no number
        ("cvt.rn.f32.s32 %r1, 16777217", bits(16777216.0)),
        ("cvt.rp.f32.s32 %r1, 16777217", bits(16777218.0)),
        ("cvt.sat.f32.f32 %r1, 0fC0200000", 0),
        ("cvt.sat.u8.s32 %r1, 300", 255),
        ("cvt.s32.s8 %r1, 200", -56),
        ("add.f32 %r1, 0f7F800000, 0fFF800000", 0x7FFFFFFF),  # the one pattern for no number
        ("add.ftz.f32 %r1, 0f00000001, 0f00000001", 0),
        ("add.f32 %r1, 0f00000001, 0f00000001", 2),
        ("sqrt.rn.f32 %r1, 0f40800000", bits(2.0)),
        ("div.rn.f32 %r1, 0f3F800000, 0f40400000", bits(1 / 3)),
        ("min.f32 %r1, 0f7FC00000, 0f40400000", bits(3.0)),
        ("min.NaN.f32 %r1, 0f7FC00000, 0f40400000", 0x7FFFFFFF),
        ("add.sat.s32 %r1, 0x7fffffff, 5", 2**31 - 1),
    ],
)
def test_known_values(text: str, expected: int) -> None:
    # .b8 and f32 operands live in registers of 32 bits
    out = Buffer(bytes(8))
    for number, word in enumerate(text.replace(",", " ").split()[2:]):
        if text.startswith("cvt.s32.s8"):
            text = text.replace(word, f"%r{number + 5}")
            text = f"mov.u32 %r{number + 5}, {word}; {text}"
    assert module(f"{text}; st.global.u32 [%o], %r1;").run("k", out, block=1).fault == "none"
    assert signed(int(out.read("Q")[0]), 32) == signed(expected, 32)


@pytest.mark.parametrize(
    ("a", "b", "expected"), [(0x3C00, 0x0400, 0x3C00), (0x7BFF, 0x7BFF, 0x7C00), (0x0001, 0x0001, 0x0002)]
)
def test_halves(a: int, b: int, expected: int) -> None:
    """1 + 2^-14, overflow to infinity, subnormal numbers."""
    out = Buffer(bytes(8))
    text = f"mov.b16 %h1, {a}; mov.b16 %h2, {b}; add.f16 %h3, %h1, %h2; st.global.b16 [%o], %h3;"
    assert module(text).run("k", out, block=1).fault == "none"
    assert out.read("Q") == [expected]
