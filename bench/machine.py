"""The machine a figure was measured on, as every result names it."""

from __future__ import annotations

import ctypes
import importlib.metadata
import mmap
import os
import platform
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor


def describe() -> dict[str, str]:
    """GPU, driver, processor count, kernel and versions of what takes part."""
    query = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    gpu = "none"
    if shutil.which(query[0]) is not None:
        gpu = subprocess.run(query, capture_output=True, text=True).stdout.strip()
    found = {
        "gpu": gpu,
        "processors": str(os.cpu_count()),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }
    for package in ("torpor", "torch", "jax", "cupy-cuda13x", "transformers", "cuda-bindings"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def touch_memory(size: int) -> None:
    """Write to `size` bytes of fresh memory and give them back.

    A virtual machine may get its memory from the host only when a page is first touched (at about 2 GB/s where these
    benchmarks were first run); a benchmark must not time that.
    """
    piece = 1 << 30

    def touch(region: mmap.mmap) -> None:
        ctypes.memset((ctypes.c_char * piece).from_buffer(region), 1, piece)

    regions = []
    for _ in range(size // piece):
        region = mmap.mmap(-1, piece)
        region.madvise(mmap.MADV_HUGEPAGE)
        regions.append(region)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(touch, regions))
    for region in regions:
        region.close()
