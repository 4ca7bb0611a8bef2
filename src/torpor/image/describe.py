"""What `torpor show` prints of an image."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from torpor.image.manifest import Manifest


def describe(path: Path, manifest: Manifest) -> dict[str, Any]:
    """The manifest as JSON-safe data, with `path`, and for each process its block count and bytes by device.

    Files are summed by folder; the blocks themselves stay in, since nothing else shows where they are.
    """
    data: dict[str, Any] = msgspec.to_builtins(manifest)
    folders: dict[str, dict[str, int]] = {}
    for entry in manifest.files:
        name = entry.path.split("/", 1)[0]
        sums = folders.setdefault(name, {"files": 0, "bytes": 0, "without_hash": 0})
        sums["files"] += 1
        sums["bytes"] += entry.size
        sums["without_hash"] += entry.hash is None
    for process, entry_data in zip(manifest.processes, data["processes"], strict=True):
        by_device: dict[int, int] = {}
        for block in process.blocks:
            by_device[block.device] = by_device.get(block.device, 0) + block.size
        for device in entry_data["devices"]:
            device["block_bytes"] = by_device.get(device["ordinal"], 0)
        entry_data["block_count"] = len(process.blocks)
    return {"path": str(path), **data, "folders": folders}
