"""Hashes of files and of memory, as manifests write them."""

from __future__ import annotations

import mmap
import os
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from blake3 import blake3

_PIECE = 1 << 20
_PAGE = 4096
SAMPLES = 16
"""Pages that stand for a file where hashing all of it would take longer than moving it: 64 KiB, so 0.1 ms each."""


def of_bytes(data: memoryview | bytes) -> str:
    """`blake3:<64 hex digits>` of bytes in memory, without the GIL and in this thread only."""
    return f"blake3:{blake3(data).hexdigest()}"


def sample_of_bytes(data: memoryview | bytes) -> str:
    """As a hash, but of `SAMPLES` pages of 4096 bytes that lie evenly in the bytes, and of their number.

    Another file's bytes, zeros, or memory that was used for something else are found; one wrong bit hardly ever.
    """
    hasher = blake3(len(data).to_bytes(8, "little"))
    for at in _sampled(len(data)):
        hasher.update(data[at : at + _PAGE])
    return f"blake3:{hasher.hexdigest()}"


def sample_of_file(path: Path) -> str:
    """The same of a file's contents, of which only these pages are read."""
    with path.open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        hasher = blake3(size.to_bytes(8, "little"))
        for at in _sampled(size):
            hasher.update(os.pread(file.fileno(), _PAGE, at))
    return f"blake3:{hasher.hexdigest()}"


def _sampled(size: int) -> list[int]:
    if size <= SAMPLES * _PAGE:
        return list(range(0, size, _PAGE))
    return [number * (size - _PAGE) // (SAMPLES - 1) for number in range(SAMPLES)]


def of_file(path: Path, size: int | None = None) -> str:
    """`blake3:<64 hex digits>` of a file's contents, or of its first `size` bytes."""
    hasher = blake3()
    left = sys.maxsize if size is None else size
    # Threads that come and go each leave what they freed to an allocator's arena of their own; a mapping goes back.
    with path.open("rb", buffering=0) as file, mmap.mmap(-1, _PIECE) as buffer, memoryview(buffer) as view:
        while count := file.readinto(view[: min(left, _PIECE)]):
            hasher.update(view[:count])
            left -= count
    return f"blake3:{hasher.hexdigest()}"


def of_files(paths: Iterable[Path]) -> dict[Path, str]:
    """The hashes of many files, several at a time, the largest first."""
    ordered = sorted(paths, key=lambda path: -path.stat().st_size)
    with ThreadPoolExecutor(max_workers=min(16, (os.cpu_count() or 2) + 1)) as workers:
        return dict(zip(ordered, workers.map(of_file, ordered), strict=True))
