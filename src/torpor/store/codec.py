"""How a chunk's bytes are written: as they are, or compressed in one of a few ways."""

from __future__ import annotations

import threading
from typing import Final

import lz4.block
import numpy as np
import zstandard

RAW: Final = 0
ZSTD: Final = 1
LZ4: Final = 2
PLANES_2: Final = 3
PLANES_4: Final = 4
NAMES: Final = {RAW: "none", ZSTD: "zstd", LZ4: "lz4", PLANES_2: "2 planes + zstd", PLANES_4: "4 planes + zstd"}

_LEVEL = 1
_WIDTHS = {PLANES_2: 2, PLANES_4: 4}
_own = threading.local()
"""zstd's contexts, which may not be shared by threads and are costly to make."""


def encode(codec: int, data: memoryview | bytes) -> bytes:
    """`data` (at most a chunk) in that codec. Planes need a length that their width divides."""
    if codec == RAW:
        return bytes(data)
    if codec == LZ4:
        return bytes(lz4.block.compress(data, store_size=False))
    if codec in _WIDTHS:
        return _zstd_planes(_planes(codec, data))
    return _compressor().compress(data)


def decode(codec: int, data: bytes | memoryview, length: int) -> bytes | memoryview:
    """The `length` bytes that `encode` was given. Raises ValueError for anything that cannot be that.

    Never makes more than `length` bytes, whatever the data say of themselves.
    """
    if codec == RAW:
        out: bytes | memoryview = data
    elif codec == LZ4:
        try:
            out = lz4.block.decompress(data, uncompressed_size=length)
        except (lz4.block.LZ4BlockError, OverflowError, MemoryError) as error:
            raise ValueError(f"LZ4 cannot read it ({error})") from error
    elif codec == ZSTD or codec in _WIDTHS:
        out = _unzstd(data, length)
        if codec in _WIDTHS:
            if length % _WIDTHS[codec]:
                raise ValueError("its length does not suit its byte planes")
            out = np.frombuffer(out, np.uint8).reshape(_WIDTHS[codec], -1).T.tobytes()
    else:
        raise ValueError(f"its codec {codec} is unknown")
    if len(out) != length:
        raise ValueError(f"it has {len(out)} bytes instead of {length}")
    return out


def suits(codec: int, length: int) -> bool:
    """Whether a codec can take data of that length."""
    return length % _WIDTHS.get(codec, 1) == 0


def _planes(codec: int, data: memoryview | bytes) -> list[bytes]:
    columns = np.frombuffer(data, np.uint8).reshape(-1, _WIDTHS[codec]).T
    return [column.tobytes() for column in columns]


def _zstd_planes(planes: list[bytes]) -> bytes:
    """One frame in which every plane begins a new block: bytes of one plane are alike, and those of two are not."""
    frame = _compressor().compressobj(size=sum(map(len, planes)))
    parts = []
    for plane in planes:
        parts.append(frame.compress(plane))
        parts.append(frame.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK))
    return b"".join([*parts, frame.flush()])


def _unzstd(data: bytes | memoryview, length: int) -> bytes:
    try:
        if zstandard.frame_content_size(data) != length:
            raise ValueError("its zstd frame is of another length")
        return _decompressor().decompress(data, max_output_size=length)
    except (zstandard.ZstdError, MemoryError) as error:
        raise ValueError(f"zstd cannot read it ({error})") from error


def _compressor() -> zstandard.ZstdCompressor:
    found = getattr(_own, "compressor", None)
    if found is None:
        found = _own.compressor = zstandard.ZstdCompressor(level=_LEVEL)
    return found


def _decompressor() -> zstandard.ZstdDecompressor:
    found = getattr(_own, "decompressor", None)
    if found is None:
        found = _own.decompressor = zstandard.ZstdDecompressor()
    return found
