"""An image on its way into a store: chunks that the store lacks, then the image's own object.

Chunks come from anywhere, in any order and from several threads at once; the image can be committed when all of them
are durable. Cut short anywhere, this leaves packs that nothing refers to, and every older image as it was.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from torpor.errors import StepFailed
from torpor.image.manifest import Manifest
from torpor.store import contents
from torpor.store.chooser import Chooser, Compression, Neighbours
from torpor.store.contents import Contents, Document, ImageHead, StoredFile, StoredFolder, StoredStream
from torpor.store.index import Ids
from torpor.store.locks import Held
from torpor.store.pack import PACK, Chunk
from torpor.store.repository import Repository, StoredImage
from torpor.store.scan import BATCH, Scan, thread_count
from torpor.store.writer import StoreWriter

_TO_GATHER = PACK * 5 // 8
"""Bytes of chunks of which many are a pack by themselves, though some of them turn out not to be needed."""

Named = tuple[bytes, memoryview]
"""A chunk's name and its bytes."""

_TOGETHER = 8
"""Chunks that one thread hands to the writer at a time: threads wait for each other there."""


class PutResult(NamedTuple):
    """What a put did. `bytes` of the image, those of them `new` to the store, and what they take there, `stored`.

    Where a checkpoint brought the GPU's bytes itself, `sifted` says how: `by` whom they were hashed (`gpu` or `host`,
    and then perhaps `because` of what), and how many were `zero`, `known`, `repeated`, and `moved` out of GPU memory.
    """

    image: StoredImage
    bytes: int
    new: int
    stored: int
    chunks: int
    new_chunks: int
    seconds: float
    sifted: dict[str, Any] | None = None

    def describe(self) -> dict[str, Any]:
        """JSON-safe: what the put did."""
        facts = self._asdict()
        image = facts.pop("image")
        return {"image": image.head.name, "id": image.id, **facts, "seconds": round(self.seconds, 4)}


class Sealed(NamedTuple):
    """An image's object, ready to be written as `images/<image.id>`."""

    image: StoredImage
    parts: list[bytes]
    found: Contents


class Deposit:
    """Leaving its block by an error gives up; without one, `flush` and `commit` have been called."""

    def __init__(
        self, repository: Repository, held: Held, *, compression: Compression = "auto", pack_size: int = PACK
    ) -> None:
        """The caller holds the store's lock, shared, for as long as this lives. Raises ImageDamaged (the index)."""
        self.repository = repository
        self.threads = thread_count()
        self._held = held
        self._begun = time.monotonic()
        self._chooser = Chooser(self.threads, compression, len(os.sched_getaffinity(0)))
        self._writer = StoreWriter(
            repository.backend,
            repository.load_index(only_present=True),
            on_written=self._chooser.wrote,
            pack_size=pack_size,
        )
        self._lock = threading.Lock()
        self._owed: set[bytes] = set()
        self._finished = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abandon()

    def batch(self, size: int) -> int:
        """Of so many bytes, how many each thread best reads and hands to `take` at a time."""
        if self._writer.gathers and size >= 4 * self.threads * _TO_GATHER:
            return _TO_GATHER
        return BATCH

    def take(self, digests: list[bytes], chunks: list[memoryview]) -> None:
        """Store those of these chunks that are new; the names are known to be theirs."""
        claimed = self._writer.claim(digests)
        new = [(digest, data) for digest, data, new in zip(digests, chunks, claimed, strict=True) if new]
        neighbours = Neighbours(self._chooser)
        for few in self._batches(new):
            self._store(neighbours, few)

    def claim(self, digests: Sequence[bytes]) -> list[bool]:
        """Which of these chunks the caller has to `bring`; nobody else is asked for those."""
        wanted = self._writer.claim(digests)
        with self._lock:
            self._owed.update(digest for digest, new in zip(digests, wanted, strict=True) if new)
        return wanted

    def bring(self, found: Sequence[Named]) -> None:
        """Store chunks that were claimed. StepFailed when one has another hash than whoever named it says: the store
        would go on giving the wrong bytes to every image that has a chunk of this name."""
        neighbours = Neighbours(self._chooser)
        for few in self._batches(found):
            for digest, data in few:
                if blake3(data).digest() != digest:
                    raise StepFailed(
                        step="sift",
                        reason=f"a chunk that was named {digest.hex()[:16]}… has other contents",
                        hint="the GPU that hashed it, or the memory that it went through, is not sound",
                    )
            self._store(neighbours, few)
            with self._lock:
                self._owed.difference_update(digest for digest, _data in few)

    def withdraw(self) -> None:
        """Whoever claimed has given up, and is at rest: what was not brought can be claimed again."""
        with self._lock:
            self._writer.disclaim(self._owed)
            self._owed.clear()

    def flush(self) -> None:
        """Bring all chunks to rest in the store, index included; durable when this returns."""
        if self._owed:
            raise StepFailed(step="store", reason=f"{len(self._owed)} chunks never came")
        self._writer.finish()
        self._finished = True

    def seal(self, name: str, manifest: Manifest, kept: bytes, scan: Scan, *, hashed: bool = True) -> Sealed:
        """The image's object. `kept` is its `manifest.json`; where files of it have no hash, `hashed` is False."""
        document = _document(kept, scan, hashed)
        ids = scan.digests.view("<u8")
        lengths, kept_ids = _without_zero_runs(document, scan.lengths, ids)
        head = ImageHead(
            name=name,
            job=manifest.job.name,
            driver=manifest.driver.kind,
            created=manifest.created,
            stored=time.time_ns(),
            torpor=manifest.torpor,
            gpu_bytes=manifest.gpu_bytes,
            cpu_bytes=manifest.cpu_bytes,
            bytes=sum(scan.sizes.values()),
            chunks=int(ids.any(axis=1).sum()),
        )
        found = Contents(head=head, document=document, lengths=lengths, ids=kept_ids)
        identity, parts = contents.encode(found)
        return Sealed(StoredImage(identity, head), parts, found)

    def commit(self, sealed: Sealed) -> PutResult:
        """Make the image be there; durable when this returns. StepFailed when somebody took the lock away."""
        self._held.check()
        self.repository.backend.write(f"images/{sealed.image.id}", sealed.parts)
        return self.result(sealed)

    def result(self, sealed: Sealed) -> PutResult:
        """What the put has done when the image is committed."""
        return PutResult(
            image=sealed.image,
            bytes=sealed.image.head.bytes,
            new=self._writer.new_bytes,
            stored=self._writer.stored_bytes + sum(map(len, sealed.parts)),
            chunks=len(sealed.found.used()),
            new_chunks=self._writer.new_chunks,
            seconds=time.monotonic() - self._begun,
        )

    def give_up(self, reason: BaseException) -> None:
        """Let whoever brings chunks, or waits in `flush`, hear of `reason` at once, however long the store takes."""
        self._writer.give_up(reason)

    def abandon(self) -> None:
        """Write nothing more, unless all has been written: packs that are there stay until a prune."""
        if not self._finished:
            self._writer.abandon()
            self._finished = True

    def _batches(self, found: Sequence[Named]) -> Iterator[Sequence[Named]]:
        """Few at a time where they are copied: what was just hashed is then still in the processor's cache."""
        few = max(len(found), 1) if self._writer.gathers else _TOGETHER
        return (found[at : at + few] for at in range(0, len(found), few))

    def _store(self, neighbours: Neighbours, few: Sequence[Named]) -> None:
        self._writer.add_all([Chunk(digest, len(data), *neighbours.encode(data)) for digest, data in few])


def _document(kept: bytes, scan: Scan, hashed: bool) -> Document:
    files = []
    for path, size in scan.sizes.items():
        mode, modified = _status(scan.folder / path)
        files.append(StoredFile(path=path, size=size, mode=mode, modified=modified))
    folders = [
        StoredFolder(path=one.relative_to(scan.folder).as_posix(), mode=one.stat().st_mode & 0o7777)
        for one in sorted(scan.folder.rglob("*"))
        if one.is_dir() and not one.is_symlink()
    ]
    streams = [
        StoredStream(label=one.label, kind=one.kind, extents=one.extents, pieces=len(one.cuts)) for one in scan.streams
    ]
    return Document(chunk=scan.chunk, manifest=kept, files=files, folders=folders, streams=streams, hashed=hashed)


def _status(path: Path) -> tuple[int, int]:
    """Mode and time of a file, or of one that never was: a segment whose bytes came from the GPU."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return 0o600, time.time_ns()
    return status.st_mode & 0o7777, status.st_mtime_ns


def _without_zero_runs(document: Document, lengths: NDArray[np.uint32], ids: Ids) -> tuple[NDArray[np.uint32], Ids]:
    """Pieces of zeros that follow one another in a stream made one; the streams' numbers of pieces change with them."""
    if not len(lengths):
        return lengths, ids
    zero = np.logical_not(ids.any(axis=1))
    begins = np.zeros(len(lengths), np.bool_)
    starts = np.cumsum([0, *(stream.pieces for stream in document.streams)])
    begins[starts[:-1]] = True
    keep = np.logical_or(begins, ~zero)
    keep[1:] |= ~zero[:-1]
    # A piece's length has 32 bits: runs are cut so that none has more than 2 GiB.
    most = max((1 << 31) // document.chunk, 1)
    run = np.arange(len(lengths)) - np.maximum.accumulate(np.where(keep, np.arange(len(lengths)), 0))
    keep |= run % most == 0
    merged = np.add.reduceat(lengths.astype(np.int64), np.flatnonzero(keep)).astype(np.uint32)
    for number, stream in enumerate(document.streams):
        stream.pieces = int(keep[starts[number] : starts[number + 1]].sum())
    return merged, ids[keep]
