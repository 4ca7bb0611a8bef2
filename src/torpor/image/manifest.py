"""The manifest's structures, field for field those of docs/format/image.md."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from torpor.image import hashing

FORMAT = 1
MANIFEST = "manifest.json"
SEGMENT = 64 << 20
"""Bytes of a full `gpu/NNNN.seg`: enough that a copy runs at the link's speed, few enough to pipeline."""

FIRST_HANDLE = 1 << 62
"""No address is that high: a block from here on is memory that the program maps itself, by its handle."""

Extent = tuple[int, int, int]
"""Segment index, offset in it, length."""


class JobFacts(msgspec.Struct, kw_only=True):
    name: str
    command: list[str]
    cwd: str
    env: dict[str, str] = {}
    arena: bool = True
    interposed: bool = True


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
    """A block of device memory; the lengths of its extents, in order, add up to `size`.

    `address` is a handle from FIRST_HANDLE on.
    """

    address: int
    size: int
    device: int
    extents: list[Extent] = []


class SharedBlock(msgspec.Struct, kw_only=True):
    """Memory that a process shares: the bytes are those of the block `owner`, given as (pid, address)."""

    address: int
    size: int
    device: int
    owner: tuple[int, int]


class ProcessEntry(msgspec.Struct, kw_only=True):
    """A process with driver state, by its pid as the job sees it. One that is not `interposed` has no blocks."""

    pid: int
    devices: list[DeviceFacts]
    blocks: list[Block]
    shared: list[SharedBlock] = []
    interposed: bool = True


class FileEntry(msgspec.Struct, kw_only=True, frozen=True):
    """A file of the image by its path from the image's folder; `hash` as `blake3:<64 hex digits>`, or None.

    One without has a `sample` in the same form (`hashing.sample_of_bytes`) and the time at which it was `modified`, in
    nanoseconds since the epoch; images of older versions may have neither.
    """

    path: str
    size: int
    hash: str | None = None
    sample: str | None = None
    modified: int | None = None


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
    checksum: str | None = None

    def segments(self) -> list[FileEntry]:
        """The files of GPU bytes in the order of their indices."""
        return sorted((f for f in self.files if f.path.startswith("gpu/")), key=lambda f: f.path)


def segment_name(index: int) -> str:
    """Path of a segment from the image's folder."""
    return f"gpu/{index:04d}.seg"


_CHECKSUM = re.compile(rb'"checksum": "(blake3:[0-9a-f]{64})"')
_BLANK = "blake3:" + "0" * 64


def encode(manifest: Manifest) -> bytes:
    """The manifest's file. Its checksum is of these very bytes, with zeros in the place of the checksum's digits."""
    manifest.checksum = _BLANK
    data = msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"
    manifest.checksum = hashing.of_bytes(data)
    return data.replace(_BLANK.encode(), manifest.checksum.encode(), 1)


def is_intact(data: bytes) -> bool:
    """Whether a manifest's file is as it was written; one without a checksum (of an older version) counts as such."""
    found = list(_CHECKSUM.finditer(data))
    if not found:
        return b'"checksum"' not in data
    start, end = found[-1].span(1)
    return hashing.of_bytes(data[:start] + _BLANK.encode() + data[end:]) == found[-1][1].decode()
