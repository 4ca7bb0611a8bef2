"""A store in one file, for `export` and `import`: a tar archive with the store's objects as members.

It is written from its beginning to its end, the image's manifest last, and read in any order. Any tar can unpack it,
and what it unpacks is a store.
"""

from __future__ import annotations

import os
import tarfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from torpor.errors import ImageDamaged, NoSpace, NotFound, StepFailed, TorporError, UsageError
from torpor.store.backend import NoObject, Stored, check_kind, check_name, pour

_BLOCK = tarfile.BLOCKSIZE
_END = bytes(2 * _BLOCK)


class ArchiveBackend:
    """Objects as members of a tar archive at `path`. Contract: `backend.Backend`, but nothing is deleted or replaced.

    A new archive is `<path>.partial` until `finish`; one that is read takes no writes.
    """

    readers = 1
    gathers = False

    def __init__(self, path: Path, *, create: bool = False) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._members: dict[str, tuple[int, int]] = {}
        self._writing = create
        self._partial = path.with_name(path.name + ".partial")
        try:
            if create:
                if path.exists():
                    raise UsageError(f"{path} exists", hint="choose another name, or remove it first")
                flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
                self._descriptor = os.open(self._partial, flags, 0o600)
                self._end = 0
            else:
                self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                self._end = self._survey()
        except FileNotFoundError:
            if create:
                raise NotFound(f"there is no folder {path.parent}", hint="make it first") from None
            raise NotFound(f"there is no {path}") from None
        except OSError as error:
            raise StepFailed(step="archive", reason=f"{path}: {error.strerror}") from error

    @property
    def url(self) -> str:
        return str(self.path)

    def list(self, kind: str) -> Iterator[Stored]:
        start = f"{check_kind(kind)}/"
        return iter([Stored(name, size) for name, (_, size) in list(self._members.items()) if name.startswith(start)])

    def size(self, name: str) -> int:
        return self._member(name)[1]

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        at, size = self._member(name)
        rest = max(size - offset, 0)
        wanted = rest if length is None else min(length, rest)
        parts = []
        while wanted:
            data = os.pread(self._descriptor, wanted, at + offset)
            if not data:
                break  # shorter than it was when it was opened; whoever reads finds too few bytes
            parts.append(data)
            offset, wanted = offset + len(data), wanted - len(data)
        return b"".join(parts)

    def read_into(self, name: str, offset: int, rooms: Sequence[memoryview]) -> int:
        return pour(self.read(name, offset, sum(map(len, rooms))), rooms)

    def write(self, name: str, parts: Sequence[bytes | memoryview]) -> None:
        if not self._writing:
            raise UsageError(f"{self.path} is an archive, which is not changed", hint="`torpor import` it into a store")
        member = tarfile.TarInfo(check_name(name))
        member.size = sum(len(part) for part in parts)
        member.mode = 0o600
        with self._lock:
            try:
                at = self._append(member.tobuf(tarfile.GNU_FORMAT))
                for part in parts:
                    self._append(part)
                self._append(bytes(-member.size % _BLOCK))
            except OSError as error:
                raise _translated(self.path, error) from error
            self._members[name] = (at + _BLOCK, member.size)

    def delete(self, names: Sequence[str]) -> None:
        for name in names:
            check_name(name)
            if name in self._members:
                raise UsageError(f"{self.path} is an archive, from which nothing is removed")

    def sweep(self) -> int:
        return 0

    def finish(self) -> None:
        """Close a new archive and give it its name; durable when this returns."""
        try:
            self._append(_END)
            os.fsync(self._descriptor)
            self._partial.rename(self.path)
            folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise _translated(self.path, error) from error
        self._writing = False

    def close(self) -> None:
        """Close it; a new one that was not finished is removed."""
        os.close(self._descriptor)
        if self._writing:
            self._partial.unlink(missing_ok=True)

    def _member(self, name: str) -> tuple[int, int]:
        found = self._members.get(check_name(name))
        if found is None:
            raise NoObject(f"the archive {self.path}", name)
        return found

    def _append(self, data: bytes | memoryview) -> int:
        at, view = self._end, memoryview(data)
        while len(view):
            count = os.pwrite(self._descriptor, view, self._end)
            self._end += count
            view = view[count:]
        return at

    def _survey(self) -> int:
        """Find the members; ImageDamaged where the archive is not whole."""
        size = os.fstat(self._descriptor).st_size
        at = 0
        while at + _BLOCK <= size:
            header = os.pread(self._descriptor, _BLOCK, at)
            if header == _END[:_BLOCK]:
                break
            try:
                member = tarfile.TarInfo.frombuf(header, "utf-8", "strict")
                name = check_name(member.name)
            except (tarfile.TarError, UnicodeError, TorporError) as error:
                os.close(self._descriptor)
                raise self._broken(f"what begins at byte {at} is no member of it") from error
            self._members[name] = (at + _BLOCK, member.size)
            at += _BLOCK + member.size + -member.size % _BLOCK
        if os.pread(self._descriptor, len(_END), at) != _END:
            os.close(self._descriptor)
            raise self._broken(f"it ends after {size} bytes, in the middle")
        return at

    def _broken(self, what: str) -> ImageDamaged:
        return ImageDamaged(f"the archive {self.path} is damaged: {what}", hint="take another copy of it")


def _translated(path: Path, error: OSError) -> TorporError:
    if error.errno in (28, 122):
        return NoSpace(f"no space for {path}", hint="choose another place")
    return StepFailed(step="archive", reason=f"{path}: {error.strerror}")
