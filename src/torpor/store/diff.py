"""What differs between two images, wherever they are: bytes, blocks, chunks."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from torpor.image.reader import read_manifest
from torpor.store.contents import Contents
from torpor.store.index import Ids, Index
from torpor.store.plan import Kind
from torpor.store.scan import Scan, thread_count

_GROUPS: dict[Kind, str] = {"block": "gpu", "pages": "memory", "file": "files"}


class Part(NamedTuple):
    """A stream and the range of its pieces."""

    label: str
    kind: Kind
    first: int
    last: int


class View(NamedTuple):
    """An image as its chunks: lengths (n,) in bytes, names (n, 4), four zero words for zeros."""

    name: str
    parts: list[Part]
    lengths: NDArray[np.int64]
    ids: Ids


def view_of_folder(folder: Path, chunk: int) -> View:
    """Read and hash an image in a folder, cut as a store of that chunk size cuts it."""
    scan = Scan(folder, read_manifest(folder), chunk)
    scan.run(thread_count(), lambda _digests, _chunks: None, lambda _count: None)
    parts, at = [], 0
    for stream in scan.streams:
        parts.append(Part(stream.label, stream.kind, at, at + len(stream.cuts)))
        at += len(stream.cuts)
    return View(folder.name, parts, scan.lengths.astype(np.int64), scan.digests.view("<u8"))


def view_of_stored(found: Contents) -> View:
    """The same of an image in a store, of which nothing but its manifest is read."""
    lengths = found.lengths.astype(np.int64)
    chunk = found.document.chunk
    # Zeros that were put together are cut again, so that pieces lie side by side.
    counts = np.where(found.ids.any(axis=1), 1, np.maximum(-(-lengths // chunk), 1))
    expanded = np.minimum(np.repeat(lengths, counts), np.where(np.repeat(counts > 1, counts), chunk, 1 << 62))
    ends = np.cumsum(counts)
    many = counts > 1
    expanded[ends[many] - 1] = lengths[many] - (counts[many] - 1) * chunk
    parts, at = [], 0
    starts = np.concatenate(([0], ends))
    for stream in found.document.streams:
        parts.append(Part(stream.label, stream.kind, int(starts[at]), int(starts[at + stream.pieces])))
        at += stream.pieces
    return View(found.head.name, parts, expanded, np.repeat(found.ids, counts, axis=0))


def diff(old: View, new: View) -> dict[str, Any]:
    """JSON-safe. `bytes` by group: all of both images, and what is in the new one only (`moved`: what a store that has
    the old one would have to take). `blocks`: by label, those that changed, came and went. `chunks`: distinct ones."""
    old_table, new_table = _table(old.ids), _table(new.ids)
    fresh = new.ids.any(axis=1) & (old_table.find(new.ids) < 0)
    groups: dict[str, dict[str, int]] = {name: {"old": 0, "new": 0, "moved": 0} for name in _GROUPS.values()}
    for part in old.parts:
        groups[_GROUPS[part.kind]]["old"] += int(old.lengths[part.first : part.last].sum())
    for part in new.parts:
        group, here = groups[_GROUPS[part.kind]], slice(part.first, part.last)
        group["new"] += int(new.lengths[here].sum())
        group["moved"] += int((new.lengths[here] * fresh[here]).sum())
    shared = int((new_table.find(old_table.rows["id"]) >= 0).sum())
    return {
        "old": old.name,
        "new": new.name,
        "bytes": groups,
        "blocks": _blocks(old, new),
        "chunks": {"shared": shared, "old_only": len(old_table) - shared, "new_only": len(new_table) - shared},
    }


def _blocks(old: View, new: View) -> dict[str, Any]:
    before = {part.label: part for part in old.parts if part.kind == "block"}
    after = {part.label: part for part in new.parts if part.kind == "block"}
    changed = []
    for label in before.keys() & after.keys():
        size, differing = _compared(old, before[label], new, after[label])
        if differing:
            changed.append({"block": label, "size": size, "changed": differing})
    return {
        "same": len(before.keys() & after.keys()) - len(changed),
        "changed": sorted(changed, key=lambda one: -int(one["changed"])),
        "gone": sorted(before.keys() - after.keys()),
        "come": sorted(after.keys() - before.keys()),
    }


def _compared(old: View, before: Part, new: View, after: Part) -> tuple[int, int]:
    """Bytes of the new block, and of those of its chunks that are not the old one's at the same place."""
    count = min(before.last - before.first, after.last - after.first)
    one, two = slice(before.first, before.first + count), slice(after.first, after.first + count)
    same = (old.ids[one] == new.ids[two]).all(axis=1) & (old.lengths[one] == new.lengths[two])
    size = int(new.lengths[after.first : after.last].sum())
    shrunk = int(old.lengths[before.first : before.last].sum()) != size
    return size, max(size - int((new.lengths[two] * same).sum()), int(shrunk))


def _table(ids: Ids) -> Index:
    """The distinct names, zeros left out, as a table to look up in."""
    present = ids[ids.any(axis=1)]
    rows = np.zeros(len(present), np.dtype([("id", "<u8", 4)]))
    rows["id"] = present
    return Index(rows, [])
