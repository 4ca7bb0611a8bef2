"""Images of stores, to be restored: the GPU's bytes go to the GPU through pinned memory, every chunk checked before.

Only what CRIU and the job need is made files of, in memory where there is room.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from torpor import writeback
from torpor.errors import ImageDamaged
from torpor.image.manifest import FileEntry
from torpor.image.reader import decode_manifest
from torpor.keeper.host import Host
from torpor.keeper.report import Report
from torpor.keeper.rollback import step
from torpor.keeper.segments import Filler
from torpor.keeper.sources import Source
from torpor.store import contents, location
from torpor.store.get import take_out
from torpor.store.passing import passing
from torpor.store.pieces import Pieces


class StoreSource(Source):
    """An image of a store, which is locked for as long as this is used. `folder` is for its files."""

    def __init__(self, pieces: Pieces, name: str, folder: Path) -> None:
        document = pieces.found.document
        self.path = folder / "image"
        self.manifest = decode_manifest(Path(name), document.manifest, hashed=document.hashed)
        self.checked_before = True
        self._name = name
        self._pieces = pieces

    def filler(self, host: Host) -> Filler:
        files = {entry.path: entry for entry in self.manifest.files}
        return StoreFiller(host.driver, host.pool, Path(self._name), files, pieces=self._pieces)

    def check(self) -> None:
        files = [(file.path, file.size) for file in self._pieces.found.document.files]
        if files != [(entry.path, entry.size) for entry in self.manifest.files]:
            raise ImageDamaged(f"image {self._name} has other files than its manifest says")

    def prepare(self, report: Report) -> None:
        size = sum(entry.size for entry in self.manifest.files if _is_file(entry.path))
        with report.phase("fetch", size) as phase, step("fetch"):
            take_out(self._pieces, self.path, _is_file, phase.move)


@dataclass
class StoreFiller(Filler):
    """Makes segments of chunks. `numbers` are those of the image's files, by path."""

    pieces: Pieces = field(kw_only=True)
    numbers: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.hashing = self.pieces.by_callers
        self.numbers = {file.path: number for number, file in enumerate(self.pieces.found.document.files)}

    def in_memory(self) -> bool:
        return False

    def _load(self, entry: FileEntry, data: memoryview) -> None:
        self.pieces.read_into(self.numbers[entry.path], data)


@contextmanager
def opened(store: str, identity: str, env: dict[str, str], key: bytes | None) -> Iterator[StoreSource]:
    """The image of that id in a store, opened as by somebody with these variables, and with its key if it has one.

    Errors as for `sources.opened`.
    """
    repository = location.open_store_as(store, writeback.environment(env), key)
    try:
        with repository.lock("shared", "restore", read_only=True):
            found = contents.read(repository.backend, identity)
            size = sum(file.size for file in found.document.files if _is_file(file.path))
            with passing(size) as folder:
                with Pieces(repository, found) as pieces:
                    yield StoreSource(pieces, f"{found.head.name}@{repository.url}", folder)
    finally:
        repository.backend.close()


def _is_file(path: str) -> bool:
    return not path.startswith("gpu/")
