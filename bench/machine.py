"""The machine a figure was measured on, as every result names it."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess


def describe() -> dict[str, str]:
    """GPU, driver, processor count, kernel and versions of what takes part."""
    smi = subprocess.run(
        ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"],
        capture_output=True, text=True,
    )
    found = {
        "gpu": smi.stdout.strip() or "none",
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
