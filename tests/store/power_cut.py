"""A file system that remembers what was synced, and can show what a power cut at any moment would have left.

`RecordingFiles` does every call of `Files` for real and writes it down. `after_cut` replays the record up to a moment
and then loses what was not durable by then, as any legal file system might: contents of files that were not synced are
lost, torn, or zeros of the right length; of a folder's changes since it was last synced any part is lost, in any order.
Ordered journals lose less than that.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torpor.store.files import Files

_SECTOR = 512


@dataclass
class _File:
    data: bytes = b""
    synced: bool = False


@dataclass
class _Folder:
    """Names as the disk has them, and changes since: each sets names to a file or folder, or (None) removes them."""

    durable: dict[str, Any] = field(default_factory=dict)
    pending: list[dict[str, Any]] = field(default_factory=list)

    def now(self) -> dict[str, Any]:
        names = dict(self.durable)
        for change in self.pending:
            _apply(names, change)
        return names


class UnsyncedFiles(Files):
    """The calls without waiting for the disk, for what is looked at once and thrown away."""

    def write_new(self, path: Path, parts: Sequence[bytes | memoryview]) -> None:
        with path.open("xb") as file:
            for part in parts:
                file.write(part)

    def sync_folder(self, path: Path) -> None:
        pass


class RecordingFiles(Files):
    """`journal` has every call in the order in which they happened, and the marks that a test sets between them."""

    def __init__(self) -> None:
        self.journal: list[tuple[Any, ...]] = []
        self._lock = threading.Lock()

    def mark(self, what: Any) -> None:
        with self._lock:
            self.journal.append(("mark", what))

    def make_folder(self, path: Path) -> None:
        with self._lock:
            if not path.is_dir():
                self.journal.append(("folder", path))
            super().make_folder(path)

    def write_new(self, path: Path, parts: Sequence[bytes | memoryview]) -> None:
        with self._lock:
            super().write_new(path, parts)
            self.journal += [("create", path), *(("write", path, bytes(part)) for part in parts), ("sync", path)]

    def rename(self, old: Path, new: Path) -> None:
        with self._lock:
            super().rename(old, new)
            self.journal.append(("rename", old, new))

    def unlink(self, path: Path) -> None:
        with self._lock:
            super().unlink(path)
            self.journal.append(("unlink", path))

    def sync_folder(self, path: Path) -> None:
        with self._lock:
            super().sync_folder(path)
            self.journal.append(("sync folder", path))

    def marks(self, before: int) -> list[Any]:
        """What was marked before that moment."""
        return [entry[1] for entry in self.journal[:before] if entry[0] == "mark"]


def after_cut(journal: list[tuple[Any, ...]], moment: int, root: Path, target: Path, chosen: random.Random) -> None:
    """Make the folder `target`: what `root` would be after a cut before entry `moment` of the journal.

    `root` itself and its parent are taken to be durable from the beginning.
    """
    folders: dict[Path, _Folder] = {root: _Folder()}
    for entry in journal[:moment]:
        _replay(folders, entry, root)
    _write_out(folders[root], target, chosen)


def _replay(folders: dict[Path, _Folder], entry: tuple[Any, ...], root: Path) -> None:
    kind, *arguments = entry
    if kind == "mark" or (arguments[0] in (root.parent, root) and kind == "folder"):
        return
    path: Path = arguments[0]
    if kind == "sync folder":
        if path in folders:
            folders[path].durable, folders[path].pending = folders[path].now(), []
        return
    parent = folders[path.parent]
    names = parent.now()
    if kind == "folder":
        folders[path] = _Folder()
        parent.pending.append({path.name: folders[path]})
    elif kind == "create":
        parent.pending.append({path.name: _File()})
    elif kind == "write":
        names[path.name].data += arguments[1]
    elif kind == "sync":
        names[path.name].synced = True
    elif kind == "rename":
        # Within one folder a rename happens wholly or not at all.
        parent.pending.append({path.name: None, arguments[1].name: names[path.name]})
    elif kind == "unlink":
        parent.pending.append({path.name: None})


def _apply(names: dict[str, Any], change: dict[str, Any]) -> None:
    for name, what in change.items():
        if what is None:
            names.pop(name, None)
        else:
            names[name] = what


def _write_out(folder: _Folder, target: Path, chosen: random.Random) -> None:
    target.mkdir()
    names = dict(folder.durable)
    share = chosen.choice((0.0, 0.5, 1.0, chosen.random()))
    for change in folder.pending:
        if chosen.random() < share:
            _apply(names, change)
    for name, what in names.items():
        if isinstance(what, _Folder):
            _write_out(what, target / name, chosen)
        else:
            (target / name).write_bytes(what.data if what.synced else _torn(what.data, chosen))


def _torn(data: bytes, chosen: random.Random) -> bytes:
    kind = chosen.randrange(4)
    if kind == 0:
        return b""
    if kind == 1:
        return data[: chosen.randrange(len(data) + 1)]
    if kind == 2:
        return bytes(len(data))
    left = bytearray(data)
    for start in range(0, len(left), _SECTOR):
        if chosen.random() < 0.5:
            left[start : start + _SECTOR] = bytes(len(left[start : start + _SECTOR]))
    return bytes(left)
