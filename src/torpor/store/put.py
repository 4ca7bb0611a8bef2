"""Putting an image into a store: only chunks that the store lacks are moved, and the manifest comes last."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from torpor.image import hashing
from torpor.image import manifest as image_manifest
from torpor.image.manifest import FileEntry, Manifest
from torpor.image.reader import check_lengths, read_manifest, verify
from torpor.records import check_name
from torpor.store import locks
from torpor.store.chooser import Compression
from torpor.store.deposit import Deposit, PutResult
from torpor.store.naming import Named, named
from torpor.store.pack import PACK
from torpor.store.repository import Repository
from torpor.store.scan import OnBytes, Scan


def put(
    repository: Repository,
    folder: Path,
    *,
    name: str | None = None,
    check: bool = True,
    unique: bool = True,
    or_next: bool = False,
    hash_files: bool = True,
    compression: Compression = "auto",
    pack_size: int = PACK,
    wait: float = locks.WAIT,
    on_bytes: OnBytes = lambda _count: None,
    on_sealed: Callable[[PutResult], None] = lambda _result: None,
) -> PutResult:
    """Put the image in `folder` into the store, durably; `name` is what it is called there, by default the same.

    With `check` the image's own hashes are checked before. With `unique` a name that the store has is a UsageError, or
    with `or_next` not used: then it is the next one that is free.
    Without `hash_files`, files that have no hash do not get one, which saves reading them once more; their chunks have.
    `on_sealed` is told what this will have done before the image is there.
    Raises ImageDamaged, NoSpace, NoRights, StepFailed, WrongState (the store is locked); nothing was added then.
    """
    begin = time.monotonic()
    manifest = read_manifest(folder)
    name = check_name(name or manifest.name)
    with _locked(repository, name, unique, or_next, wait) as (name, held):
        if check:
            verify(folder, manifest)
        else:
            check_lengths(folder, manifest)
        scan = Scan(folder, manifest, repository.chunk)
        with Deposit(repository, held, compression=compression, pack_size=pack_size) as deposit:
            scan.run(deposit.threads, deposit.take, on_bytes, batch=deposit.batch(scan.to_read()))
            kept = _manifest(folder, manifest, scan, hash_files)
            deposit.flush()
            sealed = deposit.seal(name, manifest, kept, scan, hashed=hash_files)
            on_sealed(deposit.result(sealed))
            result = deposit.commit(sealed)
    return result._replace(seconds=time.monotonic() - begin)


@contextmanager
def _locked(repository: Repository, name: str, unique: bool, or_next: bool, wait: float) -> Iterator[Named]:
    if unique:
        with named(repository, "copy", name, or_next=or_next, wait=wait) as found:
            yield found
    else:
        with repository.lock("shared", "copy", wait=wait) as held:
            yield Named(name, held)


def _manifest(folder: Path, manifest: Manifest, scan: Scan, hash_files: bool) -> bytes:
    """The image's manifest as an image on disk has it: every file of one has a hash, if they are to have one."""
    entries = [_entry(folder, entry, scan.sizes[entry.path], hash_files) for entry in manifest.files]
    if manifest.tier == "disk" and entries == manifest.files:
        return (folder / image_manifest.MANIFEST).read_bytes()
    return image_manifest.encode(msgspec.structs.replace(manifest, files=entries, tier="disk"))


def _entry(folder: Path, entry: FileEntry, size: int, hash_file: bool) -> FileEntry:
    if entry.hash is not None:
        return entry
    if not hash_file:
        return FileEntry(path=entry.path, size=size)
    return FileEntry(path=entry.path, size=size, hash=hashing.of_file(folder / entry.path, size))
