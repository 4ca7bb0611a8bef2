"""A checkpoint's way into a store: no folder of it with the GPU's bytes is ever made.

Those go into the store's packs from where they are. What CRIU writes, and the few other files, wait in a folder in
memory where there is room, until they can be cut into chunks; the image's object in the store is the commit.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from torpor import paths, records, writeback
from torpor.errors import UsageError
from torpor.image.manifest import FileEntry, ProcessEntry
from torpor.image.writer import ImageWriter
from torpor.keeper import discard
from torpor.keeper.carry import used
from torpor.keeper.host import Host
from torpor.keeper.messages import CheckpointParams
from torpor.records import check_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from torpor.store.deposit import Deposit

log = logging.getLogger(__name__)

STAGED = ".staged"
"""Folder, in a tier's, of what waits: no image can have such a name."""


@contextmanager
def opened(params: CheckpointParams, store: str) -> Iterator[tuple[Deposit, str]]:
    """A store, opened as by whoever asks, locked for an image and its name, which is given too.

    Raises NotFound, ImageDamaged, UsageError (the name is taken, or the store is an archive), WrongState (somebody has
    it for himself), NoRights.
    """
    # Stores bring numpy with them, which no keeper should wait for before it is asked for a store.
    from torpor.store import location
    from torpor.store.deposit import Deposit
    from torpor.store.naming import named

    if location.is_archive(store):
        raise UsageError(f"{store} is an archive, which is not changed", hint="`torpor import` it into a store")
    check_name(params.name)
    repository = location.open_store_as(store, writeback.environment(params.env), params.key)
    taken = paths.image_names() if params.or_next else ()
    try:
        with named(repository, "checkpoint", params.name, or_next=params.or_next, taken=taken) as (name, held):
            with Deposit(repository, held) as deposit, _remembered(params.job, store, params.env):
                yield deposit, name
    finally:
        repository.backend.close()


@contextmanager
def _remembered(job: str, store: str, env: dict[str, str]) -> Iterator[None]:
    """While the block runs the next keeper can open the store, too: a bucket cannot be looked into without."""
    if Path(store).is_dir():
        yield
        return
    file = _opening(job)
    paths.make_private(file.parent)
    # An object is there or not, whatever it is encrypted with.
    kept = {key: value for key, value in env.items() if not key.startswith("TORPOR_KEY_")}
    records.write_atomically(file, msgspec.json.encode(kept))
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


def is_there(job: str, image: str, proof: str) -> bool:
    """Whether the object `proof` of an image on its way into a store (`IMAGE@STORE`) is there.

    Raises what opening the store does, and StepFailed: then nobody knows.
    """
    from torpor.store import location
    from torpor.store.backend import NoObject

    file = _opening(job)
    env = msgspec.json.decode(file.read_bytes(), type=dict[str, str]) if file.exists() else writeback.opening()
    backend = location.open_backend_as(image.partition("@")[2], writeback.environment(env))
    try:
        backend.size(proof)
    except NoObject:
        return False
    finally:
        backend.close()
    return True


def forget(job: str) -> None:
    """Nobody needs to look for the job's image any more."""
    _opening(job).unlink(missing_ok=True)


def _opening(job: str) -> Path:
    """A file for this user only, in memory, as its contents may be secrets."""
    return paths.dram_dir() / STAGED / f"{paths.home_mark()}-{job}.opening"


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
