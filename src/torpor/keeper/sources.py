"""Where an image lies that is to be restored: in a folder, or in a store (`store_source`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from torpor.image import Manifest, read_manifest
from torpor.image.reader import check_hashes, check_lengths
from torpor.keeper.host import Host
from torpor.keeper.messages import RestoreParams
from torpor.keeper.report import Report
from torpor.keeper.segments import Filler


class Source(ABC):
    """An image. `path` is the folder with its files, when `prepare` has returned at the latest."""

    path: Path
    manifest: Manifest
    checked_before: bool
    """Whether the filler checks the GPU's bytes, so that the job must not start before it is done."""

    @abstractmethod
    def filler(self, host: Host) -> Filler:
        """What brings the GPU's bytes into blocks."""

    @abstractmethod
    def check(self) -> None:
        """What can be found wrong at once, before anything is moved. ImageDamaged."""

    @abstractmethod
    def prepare(self, report: Report) -> None:
        """Have all files but the GPU's in the folder, and checked. ImageDamaged, NoSpace."""


class FolderSource(Source):
    """An image in a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.manifest = read_manifest(path)
        self.checked_before = any(entry.hash is not None for entry in self.manifest.segments())

    def filler(self, host: Host) -> Filler:
        return Filler(host.driver, host.pool, self.path, {entry.path: entry for entry in self.manifest.files})

    def check(self) -> None:
        check_lengths(self.path, self.manifest)

    def prepare(self, report: Report) -> None:
        with report.phase("verify"):
            # Hashes of the GPU's bytes are checked by the copy, as they pass.
            entries = self.manifest.files
            check_hashes(self.path, [e for e in entries if not e.path.startswith("gpu/") or e.hash is None])


@contextmanager
def opened(params: RestoreParams) -> Iterator[Source]:
    """The image that is to be restored. Raises NotFound, ImageDamaged, ImageMismatch, WrongState (a prune is at it)."""
    if params.store is None:
        yield FolderSource(Path(params.image))
        return
    from torpor.keeper import store_source  # brings numpy, which no keeper should wait for before it is asked for it

    with store_source.opened(params.store, params.image, params.env, params.key) as source:
        yield source
