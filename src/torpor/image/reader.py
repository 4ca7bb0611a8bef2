"""Reading an image: its manifest, and whether every file is there, whole and unaltered."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

import msgspec

from torpor.errors import ImageDamaged, ImageMismatch, NotFound
from torpor.image import hashing
from torpor.image.manifest import FIRST_HANDLE, FORMAT, MANIFEST, SEGMENT, FileEntry, Manifest, ProcessEntry, is_intact

_HASH = re.compile(r"blake3:[0-9a-f]{64}")
_MEMORY = re.compile(r"cpu/pages-\d+\.img|(pinned|shm)/\d+")
_SEGMENT_PATH = re.compile(r"gpu/(\d{4,})\.seg")


class _Head(msgspec.Struct):
    format: int


def is_image(path: Path) -> bool:
    """Whether a complete image is at `path`."""
    return (path / MANIFEST).is_file()


def read_manifest(path: Path) -> Manifest:
    """The manifest of the image at `path`, its structure checked.

    Raises NotFound when there is no image, ImageMismatch when its format is newer than this Torpor, ImageDamaged when
    the manifest is not one.
    """
    try:
        data = (path / MANIFEST).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(f"no image at {path}", hint="`torpor images` lists the images") from None
    return decode_manifest(path, data)


def decode_manifest(path: Path, data: bytes, *, hashed: bool = True) -> Manifest:
    """The manifest that a file's bytes are, its structure checked; `path` is the image that messages name.

    Unless `hashed`, any file may be without a hash, as in a store whose chunks have them.

    Raises ImageMismatch, ImageDamaged as `read_manifest` does.
    """
    if not data.endswith(b"\n"):
        raise ImageDamaged(f"{path / MANIFEST} is damaged: it ends too early", hint="restore another image")
    try:
        head = msgspec.json.decode(data, type=_Head)
        if head.format > FORMAT:
            raise ImageMismatch(
                f"{path} has format {head.format}; this Torpor reads up to {FORMAT}", hint="use a newer Torpor"
            )
        if not is_intact(data):
            raise ImageDamaged(f"{path / MANIFEST} is damaged: its contents have changed", hint="restore another image")
        manifest = msgspec.json.decode(data, type=Manifest)
    except msgspec.DecodeError as error:
        raise ImageDamaged(f"{path / MANIFEST} is damaged: {error}", hint="restore another image") from error
    _check_structure(path, manifest, hashed)
    return manifest


def verify(path: Path, manifest: Manifest) -> None:
    """Check every file's length, then every hash that the manifest has; ImageDamaged names the first that is wrong."""
    check_lengths(path, manifest)
    check_hashes(path, manifest.files)


def check_lengths(path: Path, manifest: Manifest) -> None:
    """ImageDamaged, naming the first file that is missing or has another length."""
    for entry in manifest.files:
        _check_length(path, entry)


def check_hashes(path: Path, entries: Iterable[FileEntry]) -> None:
    """Read those of the files that have a hash, several at a time, and the samples of those that have a sample.

    ImageDamaged names the first that is wrong.
    """
    entries = list(entries)
    for entry in entries:
        if entry.hash is None and entry.sample is not None:
            _check_sample(path, entry, hashing.sample_of_file(path / entry.path))
    hashed = {path / entry.path: entry for entry in entries if entry.hash is not None}
    for file, digest in hashing.of_files(hashed).items():
        check_hash(path, hashed[file], digest)


def check_hash(path: Path, entry: FileEntry, digest: str) -> None:
    """ImageDamaged when the file's contents are not those that the manifest names."""
    if entry.hash is not None and digest != entry.hash:
        raise ImageDamaged(
            f"{entry.path} of image {path} is damaged: its contents have changed",
            hint="restore another image",
            details={"file": entry.path, "expected": entry.hash, "found": digest},
        )


def _check_sample(path: Path, entry: FileEntry, sample: str) -> None:
    """ImageDamaged when the pages that stand for a file without a hash are not those that were written."""
    if entry.sample is not None and sample != entry.sample:
        raise ImageDamaged(
            f"{entry.path} of image {path} is damaged: its contents are others than those that were written",
            hint="restore another image",
            details={"file": entry.path, "expected": entry.sample, "found": sample},
        )


def _check_length(path: Path, entry: FileEntry) -> None:
    file = path / entry.path
    try:
        status = file.lstat()
    except (FileNotFoundError, NotADirectoryError):
        raise ImageDamaged(
            f"{entry.path} of image {path} is missing",
            hint="restore another image",
            details={"file": entry.path},
        ) from None
    if not file.is_file() or file.is_symlink():
        raise ImageDamaged(f"{entry.path} of image {path} is not a file", details={"file": entry.path})
    if status.st_size != entry.size:
        raise ImageDamaged(
            f"{entry.path} of image {path} has {status.st_size} bytes instead of {entry.size}",
            hint="restore another image",
            details={"file": entry.path, "expected": entry.size, "found": status.st_size},
        )
    _check_time(path, entry, status.st_mtime_ns)


def _check_time(path: Path, entry: FileEntry, modified: int) -> None:
    if entry.hash is None and entry.modified is not None and modified != entry.modified:
        raise ImageDamaged(
            f"{entry.path} of image {path} has been written or replaced since, and has no hash that could tell how",
            hint="restore another image; to copy one of the dram tier, keep the times (`cp -a`)",
            details={"file": entry.path, "expected": entry.modified, "found": modified},
        )


def _check_structure(path: Path, manifest: Manifest, hashed: bool) -> None:
    sizes: dict[int, int] = {}
    seen: set[str] = set()
    for entry in manifest.files:
        pure = PurePosixPath(entry.path)
        if pure.is_absolute() or ".." in pure.parts or str(pure) != entry.path or entry.path in ("", ".", MANIFEST):
            raise _broken(path, f"{entry.path!r} leads out of the image")
        if entry.path in seen:
            raise _broken(path, f"{entry.path} is listed twice")
        if entry.size < 0 or any(
            digest is not None and not _HASH.fullmatch(digest) for digest in (entry.hash, entry.sample)
        ):
            raise _broken(path, f"{entry.path} has a size or hash that makes no sense")
        if hashed and entry.hash is None and not may_lack_hash(manifest.tier, entry.path):
            raise _broken(path, f"{entry.path} has no hash")
        seen.add(entry.path)
        match = _SEGMENT_PATH.fullmatch(entry.path)
        if match:
            sizes[int(match[1])] = entry.size
        elif entry.path.startswith("gpu/"):
            raise _broken(path, f"{entry.path} is not a segment's name")
    known = {(p.pid, block.address): block for p in manifest.processes for block in p.blocks}
    for process in manifest.processes:
        _check_blocks(path, process, sizes)
        for shared in process.shared:
            owner = known.get(shared.owner)
            if owner is None or owner.size != shared.size:
                raise _broken(path, f"block {shared.address:#x} of process {process.pid} shares what is not there")
    if manifest.gpu_bytes != sum(block.size for p in manifest.processes for block in p.blocks):
        raise _broken(path, "the sum of the blocks is not gpu_bytes")


def may_lack_hash(tier: str, file: str) -> bool:
    """Whether a file of an image of this tier may go without a hash (memory that the keeper wrote)."""
    return tier == "dram" and (file.startswith("gpu/") or _MEMORY.fullmatch(file) is not None)


def _check_blocks(path: Path, process: ProcessEntry, sizes: dict[int, int]) -> None:
    ordinals = {device.ordinal for device in process.devices}
    end = 0
    for block in sorted(process.blocks, key=lambda block: block.address):
        where = f"block {block.address:#x} of process {process.pid}"
        if block.size <= 0 or block.address < end:
            raise _broken(path, f"{where} overlaps another or is empty")
        end = block.address + (1 if block.address >= FIRST_HANDLE else block.size)
        if block.device not in ordinals:
            raise _broken(path, f"{where} is on device {block.device}, which the process does not have")
        if _covered(block.extents, sizes) != block.size:
            raise _broken(path, f"the extents of {where} do not add up to its size")


def _covered(extents: Iterable[tuple[int, int, int]], sizes: dict[int, int]) -> int:
    total = 0
    for index, offset, length in extents:
        if offset < 0 or length <= 0 or offset + length > min(sizes.get(index, 0), SEGMENT):
            return -1
        total += length
    return total


def _broken(path: Path, what: str) -> ImageDamaged:
    return ImageDamaged(f"{path / MANIFEST} is damaged: {what}", hint="restore another image")
