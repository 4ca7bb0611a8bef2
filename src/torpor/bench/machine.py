"""The machine a figure was measured on, as every result names it, and its memory made ready."""

from __future__ import annotations

import ctypes
import importlib.metadata
import mmap
import os
import platform
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from torpor import api, paths

PACKAGES = ("torpor", "torch", "jax", "cupy-cuda13x", "transformers", "vllm", "cuda-bindings")


def describe() -> dict[str, str]:
    """GPU and driver, processors, memory, kernel, CRIU, and versions of what takes part; JSON-safe."""
    found = {
        "gpu": _gpu(),
        "processors": f"{len(os.sched_getaffinity(0))} of {os.cpu_count()}",
        "processor": _processor(),
        "memory": f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / (1 << 30):.0f} GiB",
        "kernel": platform.release(),
        "python": platform.python_version(),
    }
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _gpu() -> str:
    if api.default_backend() == "sim":
        return "Torpor software GPU" if paths.software_gpu() else "none"
    query = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    if shutil.which(query[0]) is None:
        return "unknown (no nvidia-smi)"
    lines = subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip().splitlines()
    kinds = list(dict.fromkeys(lines))
    return "; ".join(f"{lines.count(kind)} × {kind}" if lines.count(kind) > 1 else kind for kind in kinds)


def _processor() -> str:
    model = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    return model[1] if model else platform.machine()


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
