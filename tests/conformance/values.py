"""Inputs: the same for the same name, half of them values at the edges of their type."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

SIZES = {"s8": 1, "u8": 1, "s16": 2, "u16": 2, "f16": 2, "bf16": 2, "s32": 4, "u32": 4, "f32": 4,
         "s64": 8, "u64": 8, "f64": 8}  # fmt: skip
LETTERS = {1: "B", 2: "H", 4: "I", 8: "Q"}

_F16 = (0, 0x8000, 1, 0x8001, 0x3FF, 0x400, 0x3C00, 0xBC00, 0x3C01, 0x3800, 0x4100, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00,
        0x7E00, 0xFE01, 0x7D23, 0x6400, 0x6401, 0x2E66)  # fmt: skip
_BF16 = (0, 0x8000, 1, 0x8001, 0x7F, 0x80, 0x3F80, 0xBF80, 0x3F81, 0x3F00, 0x4020, 0x7F7F, 0xFF7F, 0x7F80, 0xFF80,
         0x7FC0, 0xFFC1, 0x7F81, 0x4300, 0x4301, 0x3DCD)  # fmt: skip
_F32 = (0, 0x80000000, 1, 0x80000001, 0x7FFFFF, 0x807FFFFF, 0x800000, 0x3F800000, 0xBF800000, 0x3F800001, 0x3F7FFFFF,
        0x3F000000, 0x40200000, 0x40600000, 0xC0200000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000,
        0xFFC12345, 0x7F812345, 0x4B7FFFFF, 0x4B800001, 0x4F000000, 0xCF000000, 0x4F800000, 0x5F000000, 0xDF000000,
        0x33800001, 0x38800000, 0x477FE000, 0x477FF000, 0x387FC000, 0x33000000, 0x00FFFFFF, 0x3DCCCCCD)  # fmt: skip
_F64 = (0, 1 << 63, 1, (1 << 63) + 1, 0xFFFFFFFFFFFFF, 1 << 52, 0x3FF0000000000000, 0xBFF0000000000000,
        0x3FF0000000000001, 0x3FEFFFFFFFFFFFFF, 0x3FE0000000000000, 0x4004000000000000, 0xC004000000000000,
        0x7FEFFFFFFFFFFFFF, 0xFFEFFFFFFFFFFFFF, 0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000000,
        0xFFF8000012345678, 0x7FF0000000012345, 0x41DFFFFFFFC00000, 0x41E0000000000000, 0xC1E0000000000000,
        0x43E0000000000000, 0x47EFFFFFE0000000, 0x47EFFFFFF0000000, 0x36A0000000000000, 0x3690000000000001,
        0x380FFFFFE0000000, 0x4340000000000001, 0x3FB999999999999A)  # fmt: skip


def _integers(width: int) -> tuple[int, ...]:
    top = 1 << (8 * width - 1)
    small = (0, 1, 2, 3, 7, 8, 15, 31, 32, 33, 63, 64, 65, 100, 127, 128, 255)
    return tuple({*small, top, top - 1, top + 1, 2 * top - 1, 2 * top - 2, 2 * top - 31, 2 * top - 32, top >> 1, 0x55})


EDGES: dict[str, tuple[int, ...]] = {"f16": _F16, "bf16": _BF16, "f32": _F32, "f64": _F64}
EDGES |= {kind: tuple(sorted(_integers(size))) for kind, size in SIZES.items() if kind not in EDGES}


def _near(kind: str, chance: random.Random) -> int:
    """A float of ordinary size."""
    value = chance.choice((1.0, -1.0)) * (chance.random() + 0.5) * 2.0 ** chance.randrange(-12, 13)
    if kind == "f64":
        return int(struct.unpack("<Q", struct.pack("<d", value))[0])
    single = int(struct.unpack("<I", struct.pack("<f", value))[0])
    if kind == "f16":
        return int(struct.unpack("<H", struct.pack("<e", value))[0])
    return single >> 16 if kind == "bf16" else single


def _within(kind: str, low: float, high: float, chance: random.Random) -> int:
    """A value of the type between two bounds."""
    if kind in ("f32", "f64"):
        value = low + (high - low) * chance.random()
        return int.from_bytes(struct.pack("<f" if kind == "f32" else "<d", value), "little")
    return chance.randint(int(low), int(high)) & ((1 << 8 * SIZES[kind]) - 1)


def draw(kind: str, count: int, seed: str, bounds: tuple[float, float] | None = None) -> bytes:
    """`count` values of a type, little endian; within `bounds` (both included) if there are any."""
    chance = random.Random(f"{kind} {seed}")
    width = SIZES[kind]

    def word() -> int:
        if bounds is not None:
            return _within(kind, *bounds, chance)
        pick: tuple[Callable[[], int], ...] = (
            lambda: chance.choice(EDGES[kind]),
            lambda: chance.choice(EDGES[kind]),
            lambda: chance.getrandbits(8 * width),
            (lambda: _near(kind, chance)) if "f" in kind else (lambda: chance.getrandbits(5)),
        )
        return chance.choice(pick)()

    return struct.pack(f"<{count}{LETTERS[width]}", *(word() for _ in range(count)))
