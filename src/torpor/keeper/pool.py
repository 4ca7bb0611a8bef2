"""The pinned pool: 64 MiB files on tmpfs, mapped and registered with the driver, kept between uses.

A segment is in one of three places. *Free*: the pool's own, ready. *Lent*: somebody copies through it, and gives it
back with `release`. *Kept*: `take` renamed its file into an image, so that an image in DRAM costs no second copy; the
keeper still has it mapped, and `borrow` finds it again by device and inode. The file's owner may remove it at any
time: `sweep` then drops the mapping, and with it the memory.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from torpor.errors import NoSpace
from torpor.image.manifest import SEGMENT
from torpor.keeper import hostmem
from torpor.keeper.locked_folder import LockedFolder

Pin = Callable[[int, int], None]
Unpin = Callable[[int], None]
Key = tuple[int, int]


@dataclass(eq=False)
class Segment:
    """A mapped and registered file of `SEGMENT` bytes at `address`; `key` is its device and inode."""

    path: Path
    descriptor: int
    address: int
    key: Key
    users: int = 0
    to_keep: bool = False

    def view(self, length: int = SEGMENT) -> memoryview:
        return hostmem.view(self.address, length)


@dataclass
class Figures:
    """Bytes of the pool: ready, lent out, and in images that are still mapped."""

    free: int = 0
    lent: int = 0
    kept: int = 0
    limit: int = 0


@dataclass
class Pool:
    """Threads share it. `pin` and `unpin` register memory with the driver. The files lie in a folder of this pool's own
    in `folder`, where the pools of other keepers may be.

    `limit` bounds the bytes that are free or lent to be given back: what is lent to be kept in images, and what is
    kept there, is bounded by the file system alone.
    """

    folder: Path
    pin: Pin
    unpin: Unpin
    limit: int
    _free: list[Segment] = field(default_factory=list)
    _lent: set[Segment] = field(default_factory=set)
    _kept: dict[Key, Segment] = field(default_factory=dict)
    _making: int = 0
    _number: int = 0

    def __post_init__(self) -> None:
        self._changed = threading.Condition()
        self._home = LockedFolder(self.folder)  # what a keeper left that was killed goes now
        self.folder = self._home.path

    def acquire(self, *, to_keep: bool) -> Segment:
        """A segment to copy through. A free one, else a new one, made in the calling thread (10–30 ms).

        With `to_keep` the caller is going to `take` it, and the limit does not count; otherwise this waits at the
        limit until somebody releases one, and so where the host has no memory for a new one. Raises NoSpace when it
        has none, and nobody is going to release one.
        """
        while True:
            with self._changed:
                free = self._wait_for_free(to_keep)
                if free is not None:
                    return free
                self._making += not to_keep
                path, begun = self._next_path(), self._number
                alone = self._owned() == SEGMENT
            try:
                made = self._make(path)
            except BaseException as error:
                with self._changed:
                    self._making -= not to_keep
                    if to_keep or not isinstance(error, NoSpace) or (alone and self._number == begun):
                        self._changed.notify()
                        raise
                    # Others have the last of it, or had begun to take it. Who is left alone tries once more.
                    if not self._free and self._owned():
                        self._changed.wait()
                continue
            with self._changed:
                self._making -= not to_keep
                self._lend(made, to_keep)
                self._changed.notify()
            return made

    def _wait_for_free(self, to_keep: bool) -> Segment | None:
        """With the lock: a free segment, lent; None where a new one may be made."""
        while not self._free:
            if to_keep or self._owned() < max(self.limit, SEGMENT):
                return None
            self._changed.wait()
        segment = self._free.pop()
        self._lend(segment, to_keep)
        return segment

    def release(self, segment: Segment) -> None:
        """Give a lent segment back; beyond the limit it goes for good."""
        with self._changed:
            self._lent.discard(segment)
            kept = self._owned() < self.limit
            if kept:
                self._free.append(segment)
            self._changed.notify()
        if not kept:
            self._drop(segment, remove=True)

    def take(self, segment: Segment, destination: Path) -> None:
        """Rename a lent segment's file to `destination`, on the same file system, and remember its mapping."""
        os.rename(segment.path, destination)
        segment.path = destination
        with self._changed:
            self._lent.discard(segment)
            self._kept[segment.key] = segment
            self._changed.notify()

    @contextmanager
    def borrow(self, path: Path) -> Iterator[Segment]:
        """The segment behind an image's file: the mapping that is still there, or a new one of the same file."""
        status = path.stat()
        key = (status.st_dev, status.st_ino)
        with self._changed:
            segment = self._kept.get(key)
            if segment is not None:
                segment.users += 1
        if segment is None:
            segment = self._adopt(path, key)
        try:
            yield segment
        finally:
            with self._changed:
                segment.users -= 1

    def reclaim(self, path: Path) -> bool:
        """Move a kept file back into the pool, if the keeper has it mapped and the limit allows; whether it did."""
        try:
            status = path.stat()
        except FileNotFoundError:
            return False
        with self._changed:
            key = (status.st_dev, status.st_ino)
            segment = self._kept.get(key)
            if segment is None or segment.users or status.st_nlink != 1 or self._owned() >= self.limit:
                return False
            home = self._next_path()
            os.rename(path, home)
            segment.path = home
            del self._kept[key]
            self._free.append(segment)
            self._changed.notify()
        return True

    def sweep(self) -> int:
        """Let go of kept segments whose files have been removed; returns how many."""
        with self._changed:
            gone = [s for s in self._kept.values() if not s.users and os.fstat(s.descriptor).st_nlink == 0]
            for segment in gone:
                del self._kept[segment.key]
        for segment in gone:
            self._drop(segment, remove=False)
        return len(gone)

    def warm(self, size: int, on_growth: Callable[[int], None] = lambda _size: None) -> None:
        """Grow to at least `size` free bytes, and let the pool keep as many. Several threads may call it at once."""
        with self._changed:
            self.limit = max(self.limit, size)
        while True:
            with self._changed:
                free = (len(self._free) + self._making) * SEGMENT
                if free >= size or self._owned() >= self.limit:
                    return
                self._making += 1
                path = self._next_path()
            segment = None
            try:
                segment = self._make(path)
            finally:
                with self._changed:
                    self._making -= 1
                    if segment is not None:
                        self._free.append(segment)
                    self._changed.notify()
            on_growth(SEGMENT)

    def figures(self) -> Figures:
        with self._changed:
            return Figures(
                free=len(self._free) * SEGMENT,
                lent=(len(self._lent) + self._making) * SEGMENT,
                kept=len(self._kept) * SEGMENT,
                limit=self.limit,
            )

    def close(self) -> None:
        """Remove the pool's own files and every mapping; images keep theirs."""
        with self._changed:
            own = [*self._free, *self._lent]
            kept = list(self._kept.values())
            self._free.clear()
            self._lent.clear()
            self._kept.clear()
        for segment in own:
            self._drop(segment, remove=True)
        for segment in kept:
            self._drop(segment, remove=False)
        self._home.close()

    def _owned(self) -> int:
        """Bytes that the limit bounds."""
        bounded = sum(not segment.to_keep for segment in self._lent)
        return (len(self._free) + bounded + self._making) * SEGMENT

    def _lend(self, segment: Segment, to_keep: bool) -> None:
        segment.to_keep = to_keep
        self._lent.add(segment)

    def _next_path(self) -> Path:
        self._number += 1
        return self.folder / f"{self._number:06d}.seg"

    def _make(self, path: Path) -> Segment:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(descriptor, SEGMENT)
            return self._map(path, descriptor, fresh=True)
        except BaseException as error:
            os.close(descriptor)
            path.unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise NoSpace(
                    f"no host memory for another {SEGMENT >> 20} MiB of the pinned pool: {error.strerror}",
                    hint=f"free space on {self.folder}, or raise the size of that file system",
                    details={"needed": SEGMENT, "free": _free_bytes(self.folder)},
                ) from error
            raise

    def _adopt(self, path: Path, key: Key) -> Segment:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            segment = self._map(path, descriptor, fresh=False)
        except BaseException:
            os.close(descriptor)
            raise
        segment.users = 1
        with self._changed:
            # Two threads may have mapped the same file; the loser's mapping goes when its users are through.
            if key in self._kept:
                segment.key = (-1, segment.address)
            self._kept[segment.key] = segment
        return segment

    def _map(self, path: Path, descriptor: int, *, fresh: bool) -> Segment:
        address = hostmem.map_shared(descriptor, SEGMENT)
        try:
            if fresh:
                hostmem.populate(descriptor, address, SEGMENT)
            else:
                hostmem.populate_read(address, SEGMENT)
            self.pin(address, SEGMENT)
        except BaseException:
            hostmem.unmap(address, SEGMENT)
            raise
        status = os.fstat(descriptor)
        return Segment(path, descriptor, address, (status.st_dev, status.st_ino))

    def _drop(self, segment: Segment, *, remove: bool) -> None:
        self.unpin(segment.address)
        hostmem.unmap(segment.address, SEGMENT)
        os.close(segment.descriptor)
        if remove:
            segment.path.unlink(missing_ok=True)


def _free_bytes(folder: Path) -> int:
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize
