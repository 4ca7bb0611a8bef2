"""Where every chunk lies: index files in the store, and one sorted table of them in memory.

The table takes 49 bytes per chunk: a million chunks (half a TiB) are 49 MB, and are searched in bulk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from torpor.store import sealed
from torpor.store.backend import Backend
from torpor.store.pack import ENTRY, Entries, check_sizes

MAGIC = b"TORPOR-I"
MOST_ENTRIES = 1 << 19
"""Chunks of one index file that a prune writes."""

_PACK = np.dtype([("name", "u1", 32), ("size", "<u8"), ("entries", "<u4")])
_ROW = np.dtype([*[(key, ENTRY.fields[key][0]) for key in ENTRY.names], ("pack", "<u4")])  # type: ignore[index, union-attr]

Ids = NDArray[np.uint64]
"""Chunks' names, four little-endian words each: shape (n, 4)."""


class Place(NamedTuple):
    """Where a chunk's stored bytes are: pack name, offset and length there; its own length and codec."""

    pack: str
    offset: int
    stored: int
    length: int
    codec: int


class Index:
    """An immutable table of chunks, sorted by the first word of their names; of equal ones the first counts."""

    def __init__(self, rows: NDArray[np.void], packs: list[str]) -> None:
        self.packs = packs
        ids = rows["id"]
        order = np.argsort(ids[:, 0], kind="stable")
        rows = rows[order]
        if len(rows) > 1:
            same = np.concatenate(([False], (rows["id"][1:] == rows["id"][:-1]).all(axis=1)))
            rows = rows[~same]
        self.rows = rows
        self._keys = np.ascontiguousarray(rows["id"][:, 0])

    def __len__(self) -> int:
        return len(self.rows)

    def find(self, ids: Ids) -> NDArray[np.int64]:
        """Rows of chunks, -1 for those that are not there; shape (n,)."""
        if not len(self.rows):
            return np.full(len(ids), -1, np.int64)
        at = np.searchsorted(self._keys, ids[:, 0])
        inside = np.minimum(at, len(self._keys) - 1)
        found = np.where((self.rows["id"][inside] == ids).all(axis=1), inside, -1).astype(np.int64)
        # Two names may share a first word, by accident once in 2^64 pairs.
        for miss in np.flatnonzero((found < 0) & (self._keys[inside] == ids[:, 0])):
            row = int(at[miss])
            while row < len(self._keys) and self._keys[row] == ids[miss, 0]:
                if np.array_equal(self.rows["id"][row], ids[miss]):
                    found[miss] = row
                    break
                row += 1
        return found

    def place(self, row: int) -> Place:
        return next(self.places(np.array([row])))

    def places(self, rows: NDArray[np.int64]) -> Iterator[Place]:
        """Where each of these chunks is."""
        table = self.rows[rows]
        packs = map(self.packs.__getitem__, table["pack"].tolist())
        return map(Place, packs, *(table[key].tolist() for key in ("offset", "stored", "length", "codec")))

    def names(self, rows: NDArray[np.int64]) -> list[bytes]:
        """The names of these chunks."""
        joined = self.rows["id"][rows].tobytes()
        return [joined[at : at + 32] for at in range(0, len(joined), 32)]


def ids_of(digests: Iterable[bytes]) -> Ids:
    """Names as `Index.find` takes them."""
    return np.frombuffer(b"".join(digests), "<u8").reshape(-1, 4)


def write(backend: Backend, packs: Mapping[str, tuple[int, Entries]]) -> str:
    """Write an index file of packs (name → size in bytes, directory); durable when this returns. Returns its name."""
    table = np.zeros(len(packs), _PACK)
    for number, (name, (size, entries)) in enumerate(packs.items()):
        table[number] = (np.frombuffer(bytes.fromhex(name), np.uint8), size, len(entries))
    body = table.tobytes() + b"".join(entries.tobytes() for _, entries in packs.values())
    head = {"packs": len(packs), "chunks": int(table["entries"].sum())}
    name, parts = sealed.pack_object(MAGIC, head, body)
    backend.write(f"index/{name}", parts)
    return name


def read(backend: Backend, name: str) -> dict[str, tuple[int, Entries]]:
    """The packs of one index file (its object's name). Raises NoObject, ImageDamaged, ImageMismatch."""
    head, body = sealed.unpack_object(backend, name, MAGIC)
    count = int(head["packs"])
    table = np.frombuffer(body[: count * _PACK.itemsize], _PACK)
    rest = body[count * _PACK.itemsize :]
    if len(table) != count or len(rest) != int(table["entries"].sum()) * ENTRY.itemsize:
        raise sealed.damaged(backend, name, "its tables do not fit its size")
    rows = np.frombuffer(rest, ENTRY)
    check_sizes(backend, name, rows)
    ends = np.cumsum(table["entries"].astype(np.int64))
    return {
        one["name"].tobytes().hex(): (int(one["size"]), rows[end - int(one["entries"]) : end])
        for one, end in zip(table, ends.tolist(), strict=True)
    }


def build(
    parts: Iterable[Mapping[str, tuple[int, Entries]]], present: Callable[[str, int], bool] = lambda _name, _size: True
) -> Index:
    """One table of several index files, without the packs that `present` (name, size in bytes) denies."""
    packs: dict[str, int] = {}
    rows: list[NDArray[np.void]] = []
    for part in parts:
        for name, (size, entries) in part.items():
            if name in packs or not present(name, size):
                continue
            packs[name] = len(packs)
            block = np.zeros(len(entries), _ROW)
            for key in ENTRY.names or ():
                block[key] = entries[key]
            block["pack"] = packs[name]
            rows.append(block)
    return Index(np.concatenate(rows) if rows else np.zeros(0, _ROW), list(packs))
