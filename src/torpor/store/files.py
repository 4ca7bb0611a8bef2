"""The calls by which a folder store changes its files: one small layer, so that tests can record each and lose it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from torpor import direct_io

_MOST_PARTS = 512
"""Buffers of one readv or writev call; Linux takes up to 1024."""


class Files:
    """The operating system's calls. Everything raises OSError as it comes, with the file's name in it."""

    def make_folder(self, path: Path) -> None:
        """Make one folder, for this user only; one that is there is left as it is."""
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            pass

    def write_new(self, path: Path, parts: Sequence[bytes | memoryview]) -> None:
        """Write a file that is not there yet and bring its contents to the disk; its name is not durable yet.

        A large first part goes past the page cache where it lies at a multiple of 4096 and the file system can do that:
        a disk then takes three times as much a second, for a tenth of the processor's time (docs/design/store.md).
        """
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            views = [memoryview(part).cast("B") for part in parts if len(part)]
            if views and len(views[0]) >= direct_io.LARGE:
                views[0] = views[0][direct_io.write(descriptor, views[0]) :]
            _write_all(descriptor, [view for view in views if len(view)])
            os.fsync(descriptor)
        except OSError as error:
            error.filename = str(path)
            raise
        finally:
            os.close(descriptor)

    def rename(self, old: Path, new: Path) -> None:
        """Move a file within its folder, over whatever has the new name."""
        os.rename(old, new)

    def unlink(self, path: Path) -> None:
        path.unlink()

    def sync_folder(self, path: Path) -> None:
        """Bring the folder's names to the disk."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        except OSError as error:
            error.filename = str(path)
            raise
        finally:
            os.close(descriptor)


def _write_all(descriptor: int, parts: list[memoryview]) -> None:
    at = 0
    while at < len(parts):
        at = _pass_over(parts, at, os.writev(descriptor, parts[at : at + _MOST_PARTS]))


def read_parts(descriptor: int, offset: int, parts: Sequence[memoryview]) -> int:
    """Fill these pieces of memory with a file's bytes from `offset` on; how many came, fewer only at its end."""
    left, total = [part for part in parts if len(part)], 0
    at = 0
    while at < len(left):
        count = os.preadv(descriptor, left[at : at + _MOST_PARTS], offset + total)
        if not count:
            break
        total += count
        at = _pass_over(left, at, count)
    return total


def _pass_over(parts: list[memoryview], at: int, count: int) -> int:
    """The first part that is not done yet when `count` bytes from the `at`-th part on are; it is cut to its rest."""
    while at < len(parts) and count >= len(parts[at]):
        count -= len(parts[at])
        at += 1
    if count:
        parts[at] = parts[at][count:]
    return at
