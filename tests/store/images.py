"""Images for the store's tests: small folders as checkpoints write them, with contents that a test chooses."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

from torpor.image import manifest as image_manifest
from torpor.image.manifest import (
    MANIFEST,
    Block,
    DeviceFacts,
    DriverFacts,
    HostFacts,
    JobFacts,
    Manifest,
    ProcessEntry,
)
from torpor.image.writer import ImageWriter
from torpor.process.criu_images import MAGIC, encoded_field

GPU = "GPU-00000000-0000-4000-8000-00000000000a"
PAGE = 4096
_PAGEMAP = 0x56084025


def noise(seed: object, size: int) -> bytes:
    """Bytes that no codec makes smaller, the same for the same seed."""
    return hashlib.shake_128(repr(seed).encode()).digest(size)


def make_image(
    path: Path,
    *,
    blocks: Mapping[int, bytes] | None = None,
    pages: Sequence[tuple[int, bytes]] = (),
    log: bytes = b"started\n",
    segment: int = 40 * PAGE,
    tier: str = "disk",
) -> Path:
    """An image with these blocks of device memory (address → bytes), runs of pages (address, bytes), and log.

    Blocks lie end to end in segments of `segment` bytes, so that some cross from one file to the next.
    """
    writer = ImageWriter(path, tier)
    entries, segments = _laid_out(blocks or {}, segment)
    for index, data in enumerate(segments):
        padding = bytes(segment - len(data)) if tier == "dram" else b""
        (writer.partial / image_manifest.segment_name(index)).write_bytes(data + padding)
    _write_pages(writer.cpu, pages)
    (writer.cpu / "core-300.img").write_bytes(b"registers of 300\n")
    (writer.partial / "native" / "sim").mkdir()
    library = writer.partial / "native" / "libcuda.so.1"
    library.write_bytes(b"interposer")
    library.chmod(0o755)
    (writer.partial / "log").write_bytes(log)
    files = writer.list_files({})
    writer.commit(_manifest(path.name, entries, files, tier))
    return path


def contents(folder: Path) -> dict[str, tuple[bytes | None, int]]:
    """Every file and folder with its bytes and mode."""
    return {
        one.relative_to(folder).as_posix(): (one.read_bytes() if one.is_file() else None, one.stat().st_mode)
        for one in folder.rglob("*")
    }


def manifest_of(folder: Path) -> bytes:
    return (folder / MANIFEST).read_bytes()


def _laid_out(blocks: Mapping[int, bytes], segment: int) -> tuple[list[Block], list[bytes]]:
    entries, segments = [], [bytearray()]
    for address, data in blocks.items():
        extents = []
        at = 0
        while at < len(data):
            if len(segments[-1]) == segment:
                segments.append(bytearray())
            part = data[at : at + segment - len(segments[-1])]
            extents.append((len(segments) - 1, len(segments[-1]), len(part)))
            segments[-1] += part
            at += len(part)
        entries.append(Block(address=address, size=len(data), device=0, extents=extents))
    return entries, [bytes(one) for one in segments if one]


def _write_pages(folder: Path, runs: Sequence[tuple[int, bytes]]) -> None:
    (folder / "pages-1.img").write_bytes(b"".join(data for _, data in runs))
    fields = [{1: 1}, *({1: address, 2: len(data) // PAGE, 4: 4} for address, data in runs)]
    out = struct.pack("<II", MAGIC, _PAGEMAP)
    for one in fields:
        body = b"".join(encoded_field(key, value) for key, value in one.items())
        out += struct.pack("<I", len(body)) + body
    (folder / "pagemap-300.img").write_bytes(out)


def _manifest(name: str, blocks: list[Block], files: list[image_manifest.FileEntry], tier: str) -> Manifest:
    device = DeviceFacts(ordinal=0, uuid=GPU, name="Torpor software GPU", arch="9.0", memory=1 << 30)
    return Manifest(
        name=name,
        created="2025-11-29T12:00:00Z",
        torpor="0.1.0",
        job=JobFacts(name="count", command=["python", "count.py"], cwd="/srv"),
        host=HostFacts(kernel="6.18.0", machine="x86_64", criu="4.1.1"),
        driver=DriverFacts(kind="sim", version=13000),
        root=300,
        stdio={"stdin": None, "stdout": None, "stderr": None},
        processes=[ProcessEntry(pid=300, devices=[device], blocks=blocks)],
        files=files,
        tier="dram" if tier == "dram" else "disk",
        gpu_bytes=sum(block.size for block in blocks),
        cpu_bytes=sum(entry.size for entry in files if entry.path.startswith("cpu/")),
    )
