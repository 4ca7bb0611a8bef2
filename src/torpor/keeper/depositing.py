"""A checkpoint's way into a store: no folder of it with the GPU's bytes is ever made.

Those go into the store's packs from where they are. What CRIU writes, and the few other files, wait in a folder in
memory where there is room, until they can be cut into chunks; the image's object in the store is the commit.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from torpor import paths
from torpor.image.manifest import FileEntry, ProcessEntry
from torpor.image.writer import ImageWriter
from torpor.keeper import discard
from torpor.keeper.carry import used
from torpor.keeper.host import Host
from torpor.records import check_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from torpor.store.deposit import Deposit

log = logging.getLogger(__name__)

STAGED = ".staged"
"""Folder, in a tier's, of what waits: no image can have such a name."""


@contextmanager
def opened(store: str, name: str, env: dict[str, str]) -> Iterator[Deposit]:
    """A store in a folder, opened as by somebody with these variables and locked for an image of that name.

    Raises NotFound, ImageDamaged, UsageError (the name is taken), WrongState (somebody has it for himself), NoRights.
    """
    # Stores bring numpy with them, which no keeper should wait for before it is asked for a store.
    from torpor.store import location
    from torpor.store.deposit import Deposit
    from torpor.store.put import check_free

    check_name(name)
    repository = location.open_store(store, env=env)
    try:
        with repository.lock("shared", "checkpoint") as held:
            check_free(repository, name)
            with Deposit(repository, held) as deposit:
                yield deposit
    finally:
        repository.backend.close()


def staging(job: str, size: int) -> Path:
    """Where the files of this job's image wait, with room for so many bytes. Every home has folders of its own."""
    parent = paths.make_private(paths.room_for(size) / STAGED)
    return parent / f"{paths.home_mark()}-{job}"


def clear(host: Host, path: Path) -> None:
    """Remove what waited. What cannot be removed now goes when the job is checkpointed again, or removed."""
    partial = path.with_name(f"{path.name}.partial")
    try:
        if partial.exists():
            discard.empty(host.pool, partial)
    except OSError:
        log.exception("%s stays behind", partial)


def files_of(image: ImageWriter, processes: list[ProcessEntry]) -> list[FileEntry]:
    """The image's files without hashes: those that wait, and the segments of the blocks, wherever their bytes are."""
    waiting = [entry for entry in image.list_unhashed() if not entry.path.startswith("gpu/")]
    segments = [FileEntry(path=path, size=length) for path, length in used(processes).items()]
    return sorted([*waiting, *segments], key=lambda entry: entry.path)
