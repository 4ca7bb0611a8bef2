"""A folder that belongs to one living process: locked while it lives, removed by whoever finds it unlocked."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path


class LockedFolder:
    """A new folder in `parent`. Those beside it whose owners are gone are removed, those of living ones are not.

    Keepers with different homes share the memory file system, so neither a fixed name nor "what is there is left over"
    would do. The lock is the kernel's and ends with the process, however it ends.
    """

    def __init__(self, parent: Path) -> None:
        self._parent = parent
        while True:
            parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            remove_abandoned(parent)
            with suppress(FileNotFoundError):  # the parent was removed by another's close(), or the folder as abandoned
                self.path = Path(tempfile.mkdtemp(prefix="keeper-", dir=parent))
                self._lock = _locked(self.path)
                if self._lock is not None:
                    return

    def close(self) -> None:
        """Remove the folder, and the parent if nothing else is in it; what is still inside goes too."""
        if self._lock is None:
            return
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)
        self._lock = None
        with suppress(OSError):
            self._parent.rmdir()


def remove_abandoned(parent: Path) -> None:
    """Remove the folders in `parent` that no living process has locked."""
    for entry in list(parent.iterdir()):
        with suppress(FileNotFoundError, NotADirectoryError):
            lock = _locked(entry)
            if lock is not None:
                shutil.rmtree(entry, ignore_errors=True)
                os.close(lock)


def _locked(folder: Path) -> int | None:
    """A descriptor that holds the folder's lock; None if another has it, or the folder was removed meanwhile."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if folder.stat().st_ino == os.fstat(descriptor).st_ino:
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None
