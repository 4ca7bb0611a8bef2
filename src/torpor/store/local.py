"""A store in a folder. An object is a file: written beside its place, synced, renamed, and its folder synced."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from torpor import paths
from torpor.errors import NoRights, NoSpace, StepFailed, TorporError
from torpor.store.backend import CONFIG, KINDS, NoObject, Stored, check_kind, check_name
from torpor.store.files import Files, read_parts

_UNFINISHED = ".new-"
"""How the names of files begin that are no objects yet."""

_RESERVE = ".reserve"
_RESERVED = 64 << 10
"""Bytes set aside for locks: on a full disk, removing things has to be possible, and needs one."""


class LocalBackend:
    """Objects as files under `root`, which has to be there. Contract: `torpor.store.backend.Backend`."""

    readers = 1

    def __init__(self, root: Path, files: Files | None = None) -> None:
        self.root = root
        self._files = files or Files()

    @property
    def gathers(self) -> bool:
        return paths.in_dram(self.root / CONFIG)

    @property
    def url(self) -> str:
        return str(self.root)

    def prepare(self) -> None:
        """Make the folders of a new store and bring them to the disk."""
        with self._reported("config"):
            self._files.make_folder(self.root)
            self._files.sync_folder(self.root.parent)
            for kind in KINDS:
                self._files.make_folder(self.root / kind)
            self._set_aside()
            self._files.sync_folder(self.root)

    def list(self, kind: str) -> Iterator[Stored]:
        with self._reported(check_kind(kind)):
            try:
                entries = os.scandir(self.root / kind)
            except FileNotFoundError:
                return
            with entries:
                for entry in entries:
                    if entry.name.startswith("."):
                        continue
                    try:
                        yield Stored(f"{kind}/{entry.name}", entry.stat().st_size)
                    except FileNotFoundError:
                        continue  # removed since the folder was read

    def size(self, name: str) -> int:
        with self._reported(name):
            return self._path(name).stat().st_size

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        with self._reported(name):
            descriptor = os.open(self._path(name), os.O_RDONLY | os.O_CLOEXEC)
            try:
                rest = max(os.fstat(descriptor).st_size - offset, 0)
                return _read(descriptor, offset, rest if length is None else min(length, rest))
            finally:
                os.close(descriptor)

    def read_into(self, name: str, offset: int, rooms: Sequence[memoryview]) -> int:
        with self._reported(name):
            descriptor = os.open(self._path(name), os.O_RDONLY | os.O_CLOEXEC)
            try:
                return read_parts(descriptor, offset, rooms)
            finally:
                os.close(descriptor)

    def write(self, name: str, parts: Sequence[bytes | memoryview]) -> None:
        try:
            self._write(name, parts)
        except NoSpace:
            if not name.startswith("locks/") or not self._give_reserve():
                raise
            self._write(name, parts)

    def _write(self, name: str, parts: Sequence[bytes | memoryview]) -> None:
        path = self._path(name)
        new = path.with_name(f"{_UNFINISHED}{secrets.token_hex(8)}")
        with self._reported(name):
            try:
                self._files.write_new(new, parts)
                self._files.rename(new, path)
            except BaseException:
                try:
                    self._files.unlink(new)
                except OSError:
                    pass  # it was never made, or the disk refuses this too; `sweep` finds it
                raise
            self._files.sync_folder(path.parent)

    def delete(self, names: Sequence[str]) -> None:
        folders = set()
        for name in names:
            path = self._path(name)
            with self._reported(name):
                try:
                    self._files.unlink(path)
                except FileNotFoundError:
                    continue
            folders.add(path.parent)
        for folder in sorted(folders):
            with self._reported(folder.name):
                self._files.sync_folder(folder)

    def sweep(self) -> int:
        total = 0
        for folder in (self.root, *(self.root / kind for kind in KINDS if kind != "locks")):
            with self._reported(folder.name):
                for entry in list(os.scandir(folder)):
                    if entry.name.startswith(_UNFINISHED):
                        total += entry.stat().st_size
                        self._files.unlink(Path(entry.path))
        try:
            self._set_aside()
        except OSError:
            pass  # the disk is still full
        return total

    def close(self) -> None:
        pass

    def _set_aside(self) -> None:
        """Take the reserve, unless it is there. Its bytes are such that no file system makes less of them."""
        if not (self.root / _RESERVE).exists():
            self._files.write_new(self.root / _RESERVE, [os.urandom(_RESERVED)])

    def _give_reserve(self) -> bool:
        """Make room for a lock; whether there was a reserve to give."""
        try:
            self._files.unlink(self.root / _RESERVE)
        except OSError:
            return False
        return True

    def _path(self, name: str) -> Path:
        return self.root / check_name(name)

    @contextmanager
    def _reported(self, what: str) -> Iterator[None]:
        """Turn the operating system's errors into Torpor's, with the place and the object."""
        try:
            yield
        except FileNotFoundError:
            if not self.root.is_dir():
                raise NoObject(f"the store {self.root}, which is not there,", what) from None
            raise NoObject(f"the store {self.root}", what) from None
        except OSError as error:
            raise _translated(self.root, what, error) from error


def _translated(root: Path, what: str, error: OSError) -> TorporError:
    where = f"{what} of the store {root}: {error.strerror or error}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        status = os.statvfs(root)
        return NoSpace(
            f"no space for {where}",
            hint="make room, or `torpor rm` images and `torpor prune`",
            details={"free": status.f_bavail * status.f_frsize},
        )
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return NoRights(f"no right to {where}", hint="use the store as the user who owns it")
    return StepFailed(step="store", reason=where, hint="check the disk")


def _read(descriptor: int, offset: int, length: int) -> bytes:
    data = os.pread(descriptor, length, offset)
    if len(data) == length:
        return data
    parts, at = [data], len(data)
    while at < length and parts[-1]:  # one call moves at most 2 GiB
        parts.append(os.pread(descriptor, length - at, offset + at))
        at += len(parts[-1])
    return b"".join(parts)
