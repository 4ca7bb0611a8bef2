"""Hashes of files and of memory, as manifests write them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from blake3 import blake3

_PIECE = 8 << 20


def of_bytes(data: memoryview | bytes) -> str:
    """`blake3:<64 hex digits>` of bytes in memory, without the GIL and in this thread only."""
    return f"blake3:{blake3(data).hexdigest()}"


def of_file(path: Path) -> str:
    """`blake3:<64 hex digits>` of a file's contents."""
    hasher = blake3()
    with path.open("rb", buffering=0) as file:
        buffer = bytearray(_PIECE)
        view = memoryview(buffer)
        while count := file.readinto(buffer):
            hasher.update(view[:count])
    return f"blake3:{hasher.hexdigest()}"


def of_files(paths: Iterable[Path]) -> dict[Path, str]:
    """The hashes of many files, several at a time, the largest first."""
    ordered = sorted(paths, key=lambda path: -path.stat().st_size)
    with ThreadPoolExecutor(max_workers=min(16, (os.cpu_count() or 2) + 1)) as workers:
        return dict(zip(ordered, workers.map(of_file, ordered), strict=True))
