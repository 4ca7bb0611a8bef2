"""The manifest's structures, field for field those of docs/format/image.md."""

from __future__ import annotations

from typing import Literal

import msgspec

FORMAT = 1
MANIFEST = "manifest.json"
SEGMENT = 64 << 20
"""Bytes of a full `gpu/NNNN.seg`: enough that a copy runs at the link's speed, few enough to pipeline."""

Extent = tuple[int, int, int]
"""Segment index, offset in it, length."""


class JobFacts(msgspec.Struct, kw_only=True):
    name: str
    command: list[str]
    cwd: str
    env: dict[str, str] = {}
    arena: bool = True


class HostFacts(msgspec.Struct, kw_only=True):
    kernel: str
    machine: str
    criu: str


class DriverFacts(msgspec.Struct, kw_only=True):
    """`version` as `cuDriverGetVersion` gives it; `path` and `build_id` of the library the job has mapped."""

    kind: Literal["nvidia", "sim"]
    version: int
    path: str | None = None
    build_id: str | None = None


class DeviceFacts(msgspec.Struct, kw_only=True, frozen=True):
    """A device that a process sees. `ordinal` is the process's own, `arch` as `9.0`, `memory` in bytes."""

    ordinal: int
    uuid: str
    name: str
    arch: str
    memory: int


class Block(msgspec.Struct, kw_only=True):
    """A block of device memory; the lengths of its extents, in order, add up to `size`."""

    address: int
    size: int
    device: int
    extents: list[Extent] = []


class ProcessEntry(msgspec.Struct, kw_only=True):
    """A process with driver state, by its pid as the job sees it."""

    pid: int
    devices: list[DeviceFacts]
    blocks: list[Block]


class FileEntry(msgspec.Struct, kw_only=True, frozen=True):
    """A file of the image by its path from the image's folder; `hash` as `blake3:<64 hex digits>`, or None."""

    path: str
    size: int
    hash: str | None = None


class Manifest(msgspec.Struct, kw_only=True):
    format: int = FORMAT
    name: str
    created: str
    torpor: str
    job: JobFacts
    host: HostFacts
    driver: DriverFacts
    root: int
    stdio: dict[str, str | None]
    processes: list[ProcessEntry]
    files: list[FileEntry]
    tier: Literal["disk", "dram"]
    gpu_bytes: int
    cpu_bytes: int
    phases: dict[str, float] = {}

    def segments(self) -> list[FileEntry]:
        """The files of GPU bytes in the order of their indices."""
        return sorted((f for f in self.files if f.path.startswith("gpu/")), key=lambda f: f.path)


def segment_name(index: int) -> str:
    """Path of a segment from the image's folder."""
    return f"gpu/{index:04d}.seg"


def encode(manifest: Manifest) -> bytes:
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"
