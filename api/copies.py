"""Which calls move bytes, which way, and where a call says how many. Annotated by hand, for `torpor profile`.

The first pattern that matches the base name decides. Left out: prefetches (the driver decides what moves), copies of a
three-dimensional batch (elements whose size is the array's) and what runs inside a graph.
"""

from __future__ import annotations

import re

from api.effects import ANY_VARIANT

DIRECTIONS: tuple[str, ...] = (
    "host_to_device",
    "device_to_host",
    "device_to_device",
    "host_to_host",
    "unified",
    "fill",
)
"""`unified`: the call names addresses only, and the driver finds out which side they are on."""

# (direction, how its size is told, pattern on the base name). Sizes: `linear` by a parameter ByteCount, `batch` by an
# array of sizes, `described` by a structure that also tells the direction, and `fill` by a number of elements.
COPIES: tuple[tuple[str, str, str], ...] = (
    ("host_to_device", "linear", r"cuMemcpyHto[DA](Async)?"),
    ("device_to_host", "linear", r"cuMemcpy[DA]toH(Async)?"),
    ("device_to_device", "linear", r"cuMemcpy([DA]to[DA]|Peer)(Async)?"),
    ("unified", "linear", r"cuMemcpy(Async)?"),
    ("unified", "batch", r"cuMemcpyBatchAsync"),
    ("", "described", r"cuMemcpy(2D(Unaligned)?|3D(Peer)?)(Async)?"),
    ("fill", "fill", r"cuMemset(D2)?D(8|16|32)(Async)?"),
)


def copy_of(symbol: str) -> tuple[str, str] | None:
    """(direction, how its size is told) of an exported symbol; None when it moves nothing that it could tell."""
    for direction, size, pattern in COPIES:
        if re.match(f"({pattern}){ANY_VARIANT}", symbol):
            return direction, size
    return None


def element_bytes(symbol: str) -> int:
    """Bytes of one element of a fill."""
    match = re.search(r"D(8|16|32)(Async)?(_|$)", symbol)
    if match is None:
        raise ValueError(f"{symbol} fills nothing")
    return int(match[1]) // 8
