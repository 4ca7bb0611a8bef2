"""Is everything in a store as it was written? And, where an index is not: a new one from the packs themselves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from torpor.errors import ImageDamaged, NotFound, TorporError
from torpor.store import chunks, index, locks, sealed
from torpor.store.backend import NoObject
from torpor.store.index import Index
from torpor.store.pack import ENTRY, Entries, read_directory
from torpor.store.pieces import rows_of
from torpor.store.repository import Repository, StoredImage
from torpor.store.scan import OnBytes, thread_count


@dataclass
class Findings:
    """What a check found. `problems` are errors as `TorporError.to_dict` gives them; `damaged` the images they hit."""

    problems: list[dict[str, Any]] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)
    images: int = 0
    packs: int = 0
    chunks: int = 0
    bytes: int = 0
    unindexed: int = 0
    """Packs that no index file names: left by writes that were cut short, or their index is missing."""

    def add(self, error: TorporError) -> None:
        self.problems.append(error.to_dict())

    def raise_first(self) -> None:
        """ImageDamaged that tells the first problem and how many there are, if there are any."""
        if self.problems:
            first = self.problems[0]
            more = f" (and {len(self.problems) - 1} more problems)" if len(self.problems) > 1 else ""
            raise ImageDamaged(
                first["message"] + more,
                hint=f"damaged images: {', '.join(self.damaged) or 'none'}",
                details={"problems": self.problems, "images": self.damaged},
            )


def verify_image(repository: Repository, image: StoredImage, on_bytes: OnBytes = lambda _count: None) -> int:
    """Read and check every chunk of one image; returns their number. Raises ImageDamaged for the first wrong one."""
    with repository.lock("shared", "verify", read_only=True):
        found = repository.read(image)
        table = repository.load_index()
        rows = np.unique(rows_of(repository, found, table))
        rows = rows[rows >= 0]
        chunks.read_all(repository.backend, table, rows, lambda _row, data: on_bytes(len(data)), thread_count())
    return len(rows)


def verify_store(repository: Repository, on_bytes: OnBytes = lambda _count: None) -> Findings:
    """Read and check every object and every chunk. Nothing is changed."""
    findings = Findings()
    with repository.lock("shared", "verify", read_only=True):
        # Images before the index: of one that comes meanwhile, the chunks may not be in what is read of the index.
        listed = repository.readable_images()
        parts = _indices(repository, findings)
        named = {name: size for part in parts for name, (size, _) in part.items()}
        sizes = {one.name.removeprefix("packs/"): one.size for one in repository.backend.list("packs")}
        findings.unindexed = len(set(sizes) - set(named))
        wrong: set[tuple[str, bytes]] = set()
        for name, size in sorted(sizes.items()):
            if size != named.get(name, size):
                findings.add(
                    sealed.damaged(repository.backend, f"packs/{name}", f"it has {size} bytes instead of {named[name]}")
                )
            _, bad = _check_pack(repository, name, size, None, findings, on_bytes)
            wrong |= {(name, digest) for digest in bad}
        table = index.build(parts, lambda name, size: sizes.get(name) == size)
        for name in sorted(set(named) - set(sizes)):
            findings.add(sealed.damaged(repository.backend, f"packs/{name}", "it is missing, and an index names it"))
        _check_images(repository, findings, listed, table, wrong)
        _check_names(repository, findings)
    return findings


def repair_index(repository: Repository, on_bytes: OnBytes = lambda _count: None) -> Findings:
    """Write the index anew from what is in the packs, of which every chunk is read; wrong ones are left out.

    A chunk that was left out is stored again by the next image that has it. Then the old index files are removed.
    """
    findings = Findings()
    with repository.lock("exclusive", "verify --repair-index") as held:
        old = {name: entries for part in _indices(repository, Findings()) for name, (_, entries) in part.items()}
        names = [one.name for one in repository.backend.list("index")]
        kept: dict[str, tuple[int, Entries]] = {}
        for one in sorted(repository.backend.list("packs")):
            name = one.name.removeprefix("packs/")
            entries, bad = _check_pack(repository, name, one.size, old.get(name), findings, on_bytes)
            good = np.array([entry["id"].tobytes() not in bad for entry in entries], np.bool_)
            if good.any():
                kept[name] = (one.size, entries[good])
        written = write_index(repository, kept)
        held.check()
        repository.backend.delete([name for name in names if name not in written])
        table = repository.load_index()
        _check_images(repository, findings, repository.readable_images(), table, set())
    return findings


def write_index(repository: Repository, packs: dict[str, tuple[int, Entries]]) -> set[str]:
    """Index files of these packs, of a bounded size each; the names of their objects."""
    written: set[str] = set()
    part: dict[str, tuple[int, Entries]] = {}
    count = 0
    for name, (size, entries) in packs.items():
        part[name] = (size, entries)
        count += len(entries)
        if count >= index.MOST_ENTRIES:
            written.add(f"index/{index.write(repository.backend, part)}")
            part, count = {}, 0
    if part:
        written.add(f"index/{index.write(repository.backend, part)}")
    return written


def _indices(repository: Repository, findings: Findings) -> list[dict[str, tuple[int, Entries]]]:
    parts = []
    for one in sorted(repository.backend.list("index")):
        try:
            parts.append(index.read(repository.backend, one.name))
        except sealed.OBJECT_ERRORS as error:
            findings.add(error)
    return parts


def _check_pack(
    repository: Repository, name: str, size: int, known: Entries | None, findings: Findings, on_bytes: OnBytes
) -> tuple[Entries, set[bytes]]:
    """The pack's directory (else what is `known` of it) and the names of its chunks that are not as they were."""
    findings.packs += 1
    try:
        entries = read_directory(repository.backend, name)
    except sealed.OBJECT_ERRORS as error:
        findings.add(error)
        if known is None:
            return np.zeros(0, ENTRY), set()
        entries = known
    table = index.build([{name: (size, entries)}])
    bad: set[bytes] = set()

    def wrong(row: int, error: TorporError) -> None:
        bad.add(table.rows["id"][row].tobytes())
        findings.add(error)

    every = np.arange(len(table), dtype=np.int64)
    chunks.read_all(
        repository.backend, table, every, lambda _row, data: on_bytes(len(data)), thread_count(), wrong=wrong
    )
    findings.chunks += len(entries)
    findings.bytes += int(entries["length"].sum(dtype=np.int64))
    return entries, bad


def _check_images(
    repository: Repository,
    findings: Findings,
    listed: tuple[list[StoredImage], list[TorporError]],
    table: Index,
    wrong: set[tuple[str, bytes]],
) -> None:
    heads, unreadable = listed
    for error in unreadable:
        findings.add(error)
        findings.damaged.append(str(error.details.get("object", "")).removeprefix("images/")[:12])
    findings.images = len(heads) + len(unreadable)
    for image in heads:
        try:
            found = repository.read(image)
            rows = rows_of(repository, found, table)
        except NoObject:
            continue  # removed meanwhile
        except sealed.OBJECT_ERRORS as error:
            findings.add(error)
            findings.damaged.append(image.head.name)
            continue
        if wrong and _uses(table, rows, wrong):
            findings.damaged.append(image.head.name)


def _uses(table: Index, rows: NDArray[np.int64], wrong: set[tuple[str, bytes]]) -> bool:
    """Whether one of these rows is a chunk that was found wrong, in that very pack."""
    suspects = table.find(index.ids_of(digest for _, digest in wrong))
    hit = np.intersect1d(suspects[suspects >= 0], rows)
    return any((table.place(row).pack, table.rows["id"][row].tobytes()) in wrong for row in hit.tolist())


def _check_names(repository: Repository, findings: Findings) -> None:
    for one in list(repository.backend.list("tags")):
        try:
            target = sealed.unpack_json(repository.backend, one.name)["image"]
            try:
                repository.backend.size(f"images/{target}")
            except NoObject:
                repository.backend.size(one.name)  # whoever removed the image has removed its tags before
                findings.add(NotFound(f"{one.name} of the store {repository.url} names an image that is not there"))
        except NoObject:
            continue
        except sealed.OBJECT_ERRORS as error:
            findings.add(error)
    for one in repository.backend.list("locks"):
        try:
            locks.read(repository.backend, one.name)
        except NotFound:
            continue
        except sealed.OBJECT_ERRORS as error:
            findings.add(error)
