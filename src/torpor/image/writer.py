"""Writing an image: everything into `<name>.partial`, the manifest last, then one rename."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from torpor.errors import UsageError
from torpor.image import hashing, manifest
from torpor.image.manifest import FileEntry, Manifest
from torpor.image.reader import may_lack_hash


class ImageWriter:
    """A partial image. It becomes one by `commit`, or vanishes by `discard`; both may be called once."""

    def __init__(self, path: Path, tier: str) -> None:
        """Make the partial folder; UsageError when `path` is taken. OSError when the place cannot be written."""
        if path.exists() or path.is_symlink():
            raise UsageError(f"{path} exists", hint="choose another name, or remove it first")
        self.path = path
        self.tier = tier
        self.partial = path.with_name(path.name + ".partial")
        if self.partial.exists():  # of a checkpoint that was cut short; its job was rolled back or died with it
            shutil.rmtree(self.partial)
        self.partial.mkdir(parents=True, mode=0o700)
        self.cpu = self.partial / "cpu"
        self.gpu = self.partial / "gpu"
        for folder in (self.cpu, self.gpu, self.partial / "native"):
            folder.mkdir(mode=0o700)

    def add_native(self, source: Path) -> None:
        """Copy the job's libraries."""
        shutil.copytree(source, self.partial / "native", dirs_exist_ok=True)

    def add_log(self, source: Path) -> None:
        """Copy the job's output so far."""
        target = self.partial / "log"
        if source.is_file():
            shutil.copyfile(source, target)
        else:
            target.touch()

    def list_files(self, known: dict[str, FileEntry]) -> list[FileEntry]:
        """Entries of all files: those in `known` (by path) as given, the others measured and hashed now."""
        found: dict[str, Path] = {}
        for folder, _folders, names in os.walk(self.partial):
            for name in names:
                file = Path(folder) / name
                found[file.relative_to(self.partial).as_posix()] = file
        to_hash = [f for rel, f in found.items() if rel not in known and not may_lack_hash(self.tier, rel)]
        digests = hashing.of_files(to_hash)
        return [
            known.get(rel) or FileEntry(path=rel, size=file.stat().st_size, hash=digests.get(file))
            for rel, file in sorted(found.items())
        ]

    def sync(self) -> None:
        """Bring everything written so far to the disk; nothing to do for files in memory."""
        if self.tier == "dram":
            return
        for folder, _folders, names in os.walk(self.partial):
            for name in names:
                _sync(Path(folder) / name)
            _sync(Path(folder))

    def commit(self, contents: Manifest) -> None:
        """Write the manifest, and make the image be there. After this returns it is complete and durable."""
        target = self.partial / manifest.MANIFEST
        with target.open("xb") as file:
            file.write(manifest.encode(contents))
            file.flush()
            os.fsync(file.fileno())
        _sync(self.partial)
        # An empty folder in the way would be replaced silently by rename(2); the name was free when we began.
        if self.path.exists():
            raise UsageError(f"{self.path} appeared during the checkpoint", hint="choose another name")
        self.partial.rename(self.path)
        _sync(self.path.parent)

    def discard(self) -> None:
        """Remove what was written."""
        shutil.rmtree(self.partial, ignore_errors=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
