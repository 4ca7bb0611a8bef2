"""An image in memory onto a disk: the same image in another folder, every file of it hashed, and durable."""

from __future__ import annotations

import mmap
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from io import FileIO
from pathlib import Path

from blake3 import blake3
from msgspec import structs

from torpor import direct_io
from torpor.errors import ImageDamaged
from torpor.image.manifest import FileEntry, encode
from torpor.image.reader import read_manifest, verify
from torpor.image.writer import ImageWriter

_PIECE = 8 << 20
"""Bytes that are read, hashed and written at a time."""

_AT_ONCE = 3
"""Files: while one waits for the disk the others are read and hashed. The job has the other processors."""


def copy_to_disk(
    image: Path,
    path: Path,
    sizes: dict[str, int],
    *,
    on_bytes: Callable[[int], None],
    on_sealed: Callable[[str], None],
) -> None:
    """Make `path` an image of the `disk` tier with the contents of the one in the folder `image`; durable on return.

    `sizes` are the bytes of each file that mean something. `on_bytes` is called by several threads at once; `on_sealed`
    is told the manifest's checksum before the image is there. Raises ImageDamaged, UsageError (`path` is taken),
    OSError; then nothing is at `path`.
    """
    manifest = read_manifest(image)
    verify(image, manifest)
    writer = ImageWriter(path, "disk")
    try:
        for folder, folders, _names in os.walk(image):
            for name in folders:
                (writer.partial / Path(folder).relative_to(image) / name).mkdir(mode=0o700, exist_ok=True)
        entries = _copy_all(image, writer.partial, manifest.files, sizes, on_bytes)
        made = structs.replace(manifest, name=path.name, tier="disk", files=writer.list_files(entries))
        writer.sync()
        encode(made)  # which makes its checksum
        on_sealed(str(made.checksum))
        writer.commit(made)
    except BaseException:
        writer.discard()
        raise


def _copy_all(
    image: Path, target: Path, files: list[FileEntry], sizes: dict[str, int], on_bytes: Callable[[int], None]
) -> dict[str, FileEntry]:
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="copy") as threads:
        copies = {
            entry.path: threads.submit(_copy, image, target, entry, sizes[entry.path], on_bytes) for entry in files
        }
        try:
            return {path: copy.result() for path, copy in copies.items()}
        except BaseException:
            threads.shutdown(cancel_futures=True)
            raise


def _copy(image: Path, target: Path, entry: FileEntry, size: int, on_bytes: Callable[[int], None]) -> FileEntry:
    hasher = blake3()
    # At a page's begin, as direct writes need it. Not closed by hand: an error that is under way holds parts of it.
    piece = memoryview(mmap.mmap(-1, _PIECE))
    left = size
    with (
        (image / entry.path).open("rb", buffering=0) as source,
        (target / entry.path).open("xb", buffering=0) as out,
    ):
        while left:
            count = source.readinto(piece[: min(left, _PIECE)])
            if not count:
                raise ImageDamaged(f"{entry.path} of image {image} is shorter than its manifest says")
            hasher.update(piece[:count])
            _write(out, piece[:count], directly=size >= direct_io.LARGE)
            left -= count
            on_bytes(count)
    shutil.copymode(image / entry.path, target / entry.path)
    return FileEntry(path=entry.path, size=size, hash=f"blake3:{hasher.hexdigest()}")


def _write(out: FileIO, data: memoryview, *, directly: bool) -> None:
    if directly:
        data = data[direct_io.write(out.fileno(), data) :]
    while data:
        data = data[out.write(data) :]
