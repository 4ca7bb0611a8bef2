"""The operations of operations.h on numpy arrays, one element per thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
DTYPES: dict[str, Any] = {"s32": np.int32, "u32": np.uint32, "s64": np.int64, "u64": np.uint64, "f32": np.float32,
                          "f64": np.float64, "f16": np.float16}  # fmt: skip
UNSIGNED = {"s32": np.uint32, "u32": np.uint32, "s64": np.uint64, "u64": np.uint64}
INTEGERS, FLOATS = ("s32", "u32", "s64", "u64"), ("f32", "f64", "f16")
ALL = INTEGERS + FLOATS
_VIEWS = {"f32": np.uint32, "f64": np.uint64, "f16": np.uint16}
_NANS = {"f32": 0x7FC00000, "f64": 0x7FF8000000000000, "f16": 0x7E00}


def _kind(x: Array) -> str:
    return next(kind for kind, dtype in DTYPES.items() if x.dtype == dtype)


def quiet(kind: str, bits: int) -> int:
    """The same, but for a signalling NaN, which becomes a quiet one."""
    if kind not in FLOATS or not np.isnan(made(kind, np.array([bits], np.uint64))[0]):
        return bits
    return bits | _NANS[kind]


def _by_unsigned(f: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """Wraps around for integers; floats are left alone (f16 is computed in f32 by numpy, which rounds the same)."""

    def both(a: Array, b: Array) -> Array:
        if a.dtype.kind == "f":
            return f(a, b)
        unsigned = UNSIGNED[_kind(a)]
        return f(a.view(unsigned), b.view(unsigned)).view(a.dtype)

    return both


def _amount(a: Array, b: Array) -> Array:
    return b & b.dtype.type(8 * a.dtype.itemsize - 1)


def shl(a: Array, b: Array) -> Array:
    unsigned = UNSIGNED[_kind(a)]
    return (a.view(unsigned) << _amount(a, b).view(unsigned)).view(a.dtype)


def shr(a: Array, b: Array) -> Array:
    return a >> _amount(a, b)


def quot(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return a / b
    safe = np.where((b == 0) | (b == a.dtype.type(-1 if a.dtype.kind == "i" else 0)), a.dtype.type(1), b)
    result = a // safe
    if a.dtype.kind == "i":
        result = result + ((a % safe != 0) & ((a < 0) != (safe < 0))).astype(a.dtype)  # towards zero
        result = np.where(b == -1, neg(a), result)
    return np.where(b == 0, a.dtype.type(1), result)


def rest(a: Array, b: Array) -> Array:
    safe = np.where((b == 0) | (b == a.dtype.type(-1 if a.dtype.kind == "i" else 0)), a.dtype.type(1), b)
    result = np.fmod(a, safe)
    if a.dtype.kind == "i":
        result = np.where(b == -1, a.dtype.type(0), result)
    return np.where(b == 0, a.dtype.type(2), result)


def neg(a: Array) -> Array:
    if a.dtype.kind == "f":
        return -a
    unsigned = UNSIGNED[_kind(a)]
    return (unsigned(0) - a.view(unsigned)).view(a.dtype)


def less(a: Array, b: Array) -> Array:
    return (a < b).astype(np.uint32)


def same(a: Array, b: Array) -> Array:
    return (a == b).astype(np.uint32)


def pick(condition: Array, a: Array, b: Array) -> Array:
    return np.where(condition != 0, a, b)


def ones(a: Array) -> Array:
    return np.array([int(x).bit_count() for x in a], a.dtype)


def mirror(a: Array) -> Array:
    width = 8 * a.dtype.itemsize
    return np.array([int(f"{int(x):0{width}b}"[::-1], 2) for x in a], a.dtype)


def cast(to: str, x: Array) -> Array:
    """As the hardware converts: integers wrap, floats round to nearest, floats to integers towards zero, clamped."""
    source, target = _kind(x), DTYPES[to]
    if source == to:
        return x
    if source == "f16":
        return cast(to, x.astype(np.float32))
    if to == "f16":
        return x.astype(np.float32).astype(np.float16)
    if x.dtype.kind != "f" or to in FLOATS:
        return x.astype(target)
    limits = np.iinfo(target)
    nan = 0 if source == "f32" and to in ("s32", "u32") else 1 << (limits.bits - 1)
    if to[0] == "s" and nan:
        nan = int(limits.min)
    return np.array(
        [nan if v != v else int(min(max(_whole(v), int(limits.min)), int(limits.max))) for v in x.tolist()], target
    )


def _whole(value: float) -> int:
    return int(max(min(value, 1e30), -1e30))


def word(x: Array) -> Array:
    """64 bits that stand for the value; one pattern for everything that is no number."""
    kind = _kind(x)
    if kind in FLOATS:
        view = x.view(_VIEWS[kind])
        return np.where(np.isnan(x), _VIEWS[kind](_NANS[kind]), view).astype(np.uint64)
    return x.view(UNSIGNED[kind]).astype(np.uint64)


def made(kind: str, words: Array) -> Array:
    if kind in FLOATS:
        return words.astype(_VIEWS[kind]).view(DTYPES[kind])
    return words.astype(UNSIGNED[kind]).view(DTYPES[kind])


def across(x: Array, by: int) -> Array:
    return made(_kind(x), word(x)[np.arange(len(x)) ^ by])


def around(x: Array, by: int) -> Array:
    return made(_kind(x), word(x)[(np.arange(len(x)) + by) % len(x)])


def mixed(h: Array, w: Array) -> Array:
    return (h ^ w) * np.uint64(0x100000001B3) + (h >> np.uint64(29))


BINARY: dict[str, tuple[tuple[str, ...], Callable[[Array, Array], Array]]] = {
    "add": (ALL, _by_unsigned(np.add)),
    "sub": (ALL, _by_unsigned(np.subtract)),
    "mul": (ALL, _by_unsigned(np.multiply)),
    "conj": (INTEGERS, np.bitwise_and),
    "disj": (INTEGERS, np.bitwise_or),
    "diff": (INTEGERS, np.bitwise_xor),
    "shl": (INTEGERS, shl),
    "shr": (INTEGERS, shr),
    "quot": ((*INTEGERS, "f32", "f64"), quot),
    "rest": (INTEGERS, rest),
    "least": (ALL, lambda a, b: pick(less(a, b), a, b)),
}
COMPARE = {"less": less, "same": same}
UNARY: dict[str, tuple[tuple[str, ...], Callable[[Array], Array]]] = {
    "neg": (ALL, neg),
    "inv": (INTEGERS, np.invert),
    "ones": (("u32", "u64"), ones),
    "mirror": (("u32", "u64"), mirror),
    "root": (("f32", "f64"), lambda a: np.sqrt(np.abs(a))),
}
