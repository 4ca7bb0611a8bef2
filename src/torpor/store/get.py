"""Bringing an image back from a store into a folder, as a checkpoint would have left it there.

Chunks are read, checked and written in several threads; nothing unchecked is written. Zeros are left out: they are
holes of the files. The folder is no image until its manifest is there, which comes last.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from msgspec import structs

from torpor.errors import ImageDamaged, NoSpace, StepFailed, UsageError
from torpor.image import hashing
from torpor.image.manifest import MANIFEST, encode
from torpor.image.reader import decode_manifest, read_manifest
from torpor.store import locks
from torpor.store.contents import Contents
from torpor.store.pieces import Pieces, Target
from torpor.store.repository import Repository, StoredImage
from torpor.store.scan import OnBytes, thread_count

Wanted = Callable[[str], bool]
"""Says of a file's path whether it is wanted."""


def get(
    repository: Repository,
    image: StoredImage,
    path: Path,
    *,
    durable: bool = True,
    wait: float = locks.WAIT,
    on_bytes: OnBytes = lambda _count: None,
) -> Path:
    """Make `path` a folder with that image and return it; synced to the disk if `durable`.

    Raises UsageError when `path` is taken, ImageDamaged, which names chunk, pack and offset, NoSpace, StepFailed. Then
    `path` is not there.
    """
    if path.exists() or path.is_symlink():
        raise UsageError(f"{path} exists", hint="choose another name, or remove it first")
    partial = path.with_name(path.name + ".partial")
    with repository.lock("shared", "get", wait=wait, read_only=True):
        found = repository.read(image)
        pieces = Pieces(repository, found)
        try:
            if partial.exists():
                shutil.rmtree(partial)
            take_out(pieces, partial, lambda _path: True, on_bytes)
            _finish(partial, found, durable)
            if path.exists():
                raise UsageError(f"{path} appeared meanwhile", hint="choose another name")
            partial.rename(path)
            if durable:
                _sync(path.parent)
        except OSError as error:
            shutil.rmtree(partial, ignore_errors=True)
            if error.errno in (28, 122):
                raise NoSpace(f"no space for the image at {path}", hint="make room, or choose another place") from error
            raise StepFailed(step="get", reason=f"{error.filename or partial}: {error.strerror}") from error
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
    return path


def take_out(pieces: Pieces, folder: Path, wanted: Wanted, on_bytes: OnBytes) -> None:
    """Make `folder`, which is not there, with those files of an image whose paths are `wanted`, as they were.

    Every chunk is checked before it is written. No manifest is. Raises ImageDamaged, OSError.
    """
    found = pieces.found
    numbers = [number for number, file in enumerate(found.document.files) if wanted(file.path)]
    _make(folder, found, numbers)
    _fill(pieces, folder, numbers, on_bytes)
    for number in numbers:
        file = found.document.files[number]
        path = folder / file.path
        path.chmod(file.mode)
        os.utime(path, ns=(file.modified, file.modified))
    for one in reversed(found.document.folders):
        (folder / one.path).chmod(one.mode)


def _make(partial: Path, found: Contents, numbers: list[int]) -> None:
    """Folders, and files of their full length without any contents."""
    partial.mkdir(parents=True, mode=0o700)
    for folder in found.document.folders:
        (partial / _inside(found, folder.path)).mkdir(mode=0o700, exist_ok=True, parents=True)
    for number in numbers:
        file = found.document.files[number]
        descriptor = os.open(
            partial / _inside(found, file.path), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600
        )
        try:
            os.ftruncate(descriptor, file.size)
        finally:
            os.close(descriptor)


def _fill(pieces: Pieces, partial: Path, numbers: list[int], on_bytes: OnBytes) -> None:
    paths = {number: partial / pieces.found.document.files[number].path for number in numbers}

    def write(target: Target, data: memoryview) -> None:
        _write(paths[target.file], target.offset, data)
        on_bytes(target.length)

    targets = [target for number in numbers for target in pieces.of_file(number)]
    pieces.read_all(targets, write, thread_count())


def _write(path: Path, offset: int, data: memoryview) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        at = 0
        while at < len(data):
            at += os.pwrite(descriptor, data[at:], offset + at)
    finally:
        os.close(descriptor)


def _finish(partial: Path, found: Contents, durable: bool) -> None:
    """The manifest last, and its own rules checked."""
    if durable:
        for file in found.document.files:
            _sync(partial / file.path)
        for folder in found.document.folders:
            _sync(partial / folder.path)
    with (partial / MANIFEST).open("xb") as out:
        out.write(_manifest(partial, found))
        out.flush()
        if durable:
            os.fsync(out.fileno())
    if durable:
        _sync(partial)
    manifest = read_manifest(partial)
    if [(entry.path, entry.size) for entry in manifest.files] != [(f.path, f.size) for f in found.document.files]:
        raise ImageDamaged(f"image {found.head.name} has other files than its manifest says")


def _manifest(partial: Path, found: Contents) -> bytes:
    """The folder's manifest: the one that the store has, with the hashes that it lacks."""
    document = found.document
    if document.hashed:
        return document.manifest
    manifest = decode_manifest(partial, document.manifest, hashed=document.hashed)
    manifest.tier = "disk"
    digests = hashing.of_files(partial / entry.path for entry in manifest.files if entry.hash is None)
    manifest.files = [
        structs.replace(entry, hash=entry.hash or digests[partial / entry.path]) for entry in manifest.files
    ]
    return encode(manifest)


def _inside(found: Contents, path: str) -> str:
    """The path itself, unless it leads out of the image: a store may come from somebody else."""
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or str(pure) != path or path in ("", ".", MANIFEST):
        raise ImageDamaged(f"image {found.head.name} is damaged: {path!r} leads out of it")
    return path


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
