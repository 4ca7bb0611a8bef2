"""Giving back the room of chunks that no image uses any more.

Order of what becomes durable: new packs with what is kept of old ones, the new index, the end of the old index files,
the end of the old packs. Cut short anywhere, every image is whole, and the next prune does the rest.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from torpor.errors import ImageDamaged, TorporError
from torpor.store import chunks, index, locks
from torpor.store.index import Index
from torpor.store.pack import PACK, Chunk, Entries
from torpor.store.repository import Repository
from torpor.store.scan import thread_count
from torpor.store.verify import write_index
from torpor.store.writer import StoreWriter

WASTE = 0.5
"""A pack that is unused to a larger part is written anew."""

SMALL = PACK // 8
FEW = 8
"""As many small packs, or small index files, are made into one."""


class PruneResult(NamedTuple):
    """What a prune did, or would do. `freed` and `rewritten` in bytes; `leftovers` of writes that were cut short."""

    images: int
    chunks: int
    unused_chunks: int
    packs: int
    removed_packs: int
    rewritten_packs: int
    rewritten: int
    leftovers: int
    freed: int


@dataclass
class _Plan:
    """What is in the store, and what becomes of it. Packs by name; `files` are the packs that each index file names."""

    sizes: dict[str, int]
    packs: dict[str, tuple[int, Entries]]
    files: dict[str, set[str]]
    table: Index
    used: NDArray[np.bool_]
    images: int
    dead: set[str]
    partly: set[str]
    rewritten: int


def prune(
    repository: Repository, *, dry_run: bool = False, wait: float = locks.WAIT, pack_size: int = PACK
) -> PruneResult:
    """Remove what no image uses. Raises WrongState while others use the store.

    ImageDamaged when an image or index file cannot be read: what it refers to would look unused. NoSpace when there is
    none for what is kept of packs; what needs no room has been removed by then.
    """
    with repository.lock("exclusive", "prune", wait=wait) as held:
        plan = _plan(repository, pack_size)
        before = _size(repository)
        result = PruneResult(
            images=plan.images,
            chunks=int(plan.used.sum()),
            unused_chunks=len(plan.table) - int(plan.used.sum()),
            packs=len(plan.sizes),
            removed_packs=len(plan.dead & plan.sizes.keys()),
            rewritten_packs=len(plan.partly),
            rewritten=plan.rewritten,
            leftovers=0,
            freed=sum(plan.sizes[name] for name in plan.dead & plan.sizes.keys()),
        )
        if dry_run:
            return result
        leftovers = repository.backend.sweep()
        # Whoever broke the lock meanwhile may be storing images that count on what is about to go.
        held.check()
        _remove_alone(repository, plan)
        if plan.dead & plan.packs.keys() or plan.partly or len(plan.files) >= FEW:
            _rewrite_index(repository, plan, pack_size, held)
        freed = before - _size(repository) + leftovers
        return result._replace(rewritten_packs=len(plan.partly), leftovers=leftovers, freed=freed)


def _size(repository: Repository) -> int:
    return sum(one.size for kind in ("packs", "index") for one in repository.backend.list(kind))


def _plan(repository: Repository, pack_size: int) -> _Plan:
    sizes = {one.name.removeprefix("packs/"): one.size for one in repository.backend.list("packs")}
    files = _indexed(repository)
    packs = {name: pack for part in files.values() for name, pack in part.items()}
    # A chunk may be in a pack that is whole and in one that is not; only the first counts.
    table = index.build([packs], lambda name, size: sizes.get(name) == size)
    doubtful = index.build([packs], lambda name, size: sizes.get(name) != size)
    images, used, needed = _used(repository, table, doubtful)
    there = dict(zip(table.packs, _by_pack(table, np.ones(len(table), np.bool_)).tolist(), strict=True))
    kept = dict(zip(table.packs, _by_pack(table, used).tolist(), strict=True))
    # Of packs that are cut short or gone, those stay on record that an image cannot do without.
    dead = {name for name in sizes if name not in packs} | (set(doubtful.packs) - needed)
    dead |= {name for name in table.packs if not kept[name]}
    partly = {name for name in table.packs if 0 < kept[name] < (1 - WASTE) * there[name]}
    small = {name for name in table.packs if name not in dead and packs[name][0] < min(SMALL, pack_size)}
    if len(small) >= FEW:
        partly |= small
    return _Plan(
        sizes=sizes,
        packs=packs,
        files={name: set(part) for name, part in files.items()},
        table=table,
        used=used,
        images=images,
        dead=dead,
        partly=partly,
        rewritten=sum(kept[name] for name in partly),
    )


def _remove_alone(repository: Repository, plan: _Plan) -> None:
    """Remove what can go without writing anything, so that a full disk gets room: packs that no index file names, and
    index files all of whose packs are unused, with those packs."""
    spent = [name for name, named in plan.files.items() if named <= plan.dead]
    for name in spent:
        del plan.files[name]
    repository.backend.delete(spent)
    still = set().union(*plan.files.values())
    gone = plan.dead - still
    repository.backend.delete([f"packs/{name}" for name in sorted(gone & plan.sizes.keys())])
    plan.dead -= gone
    plan.packs = {name: pack for name, pack in plan.packs.items() if name in still}


def _rewrite_index(repository: Repository, plan: _Plan, pack_size: int, held: locks.Held) -> None:
    """New packs with what is used of old ones, a new index, and the end of the old index and packs."""
    spoiled, written = _rewrite(repository, plan.table, plan.used, plan.partly, pack_size)
    plan.partly -= spoiled
    ending = plan.dead | plan.partly
    written |= write_index(repository, {name: pack for name, pack in plan.packs.items() if name not in ending})
    held.check()
    # What was just written may be named like something that was to go: the same chunks make the same pack.
    repository.backend.delete([name for name in plan.files if name not in written])
    repository.backend.delete([name for name in (f"packs/{one}" for one in sorted(ending)) if name not in written])


def _indexed(repository: Repository) -> dict[str, dict[str, tuple[int, Entries]]]:
    """The index files and what they say."""
    found = {}
    for one in sorted(repository.backend.list("index")):
        try:
            found[one.name] = index.read(repository.backend, one.name)
        except ImageDamaged as error:
            error.hint = "`torpor verify --repair-index` makes a new index; nothing was removed"
            raise
    return found


def _used(repository: Repository, table: Index, doubtful: Index) -> tuple[int, NDArray[np.bool_], set[str]]:
    """The number of images, for each chunk whether one uses it, and doubtful packs with chunks found nowhere else."""
    used = np.zeros(len(table), np.bool_)
    needed: set[str] = set()
    images, wrong = repository.readable_images()
    if wrong:
        wrong[0].hint = "remove the image with `torpor rm`, or put its file back from a copy; nothing was removed"
        raise wrong[0]
    for image in images:
        ids = repository.read(image).used()
        rows = table.find(ids)
        used[rows[rows >= 0]] = True
        elsewhere = doubtful.find(ids[rows < 0])
        needed |= {doubtful.place(row).pack for row in elsewhere[elsewhere >= 0].tolist()}
    return len(images), used, needed


def _rewrite(
    repository: Repository,
    table: Index,
    used: NDArray[np.bool_],
    partly: set[str],
    pack_size: int,
) -> tuple[set[str], set[str]]:
    """Write the used chunks of these packs into new ones, index included.

    Returns the packs that must stay, because a chunk of theirs is damaged and what an error names has to be there,
    and the names of the objects that were written.
    """
    if not partly:
        return set(), set()
    writer = StoreWriter(repository.backend, index.build([]), pack_size=pack_size)
    numbers = [number for number, name in enumerate(table.packs) if name in partly]
    rows = np.flatnonzero(used & np.isin(table.rows["pack"], numbers))
    spoiled: set[str] = set()
    lock = threading.Lock()

    def use(row: int, data: bytes | memoryview) -> None:
        place = table.place(row)
        writer.add(Chunk(table.rows["id"][row].tobytes(), place.length, place.codec, memoryview(data)))

    def wrong(row: int, _error: TorporError) -> None:
        with lock:
            spoiled.add(table.place(row).pack)

    try:
        chunks.read_all(repository.backend, table, rows, use, thread_count(), encoded=True, wrong=wrong)
        writer.finish()
    except BaseException:
        writer.abandon()
        raise
    return spoiled, writer.objects


def _by_pack(table: Index, chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
    """For each pack the stored bytes of those of its chunks that are chosen."""
    weights = table.rows["stored"] * chosen
    return np.bincount(table.rows["pack"], weights=weights, minlength=len(table.packs)).astype(np.int64)
