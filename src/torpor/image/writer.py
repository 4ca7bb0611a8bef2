"""Writing an image: everything into `<name>.partial`, the manifest last, then one rename."""

from __future__ import annotations

import os
import shutil
from collections.abc import Container, Iterable
from pathlib import Path

from torpor.errors import StepFailed, UsageError
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
        self._written: set[str] = set()

    def add_native(self, source: Path) -> None:
        """Copy the job's libraries. Raises the first OSError as it is: `copytree` would collect them, numbers lost."""
        for folder, folders, names in os.walk(source):
            target = self.partial / "native" / Path(folder).relative_to(source)
            for name in folders:
                (target / name).mkdir(exist_ok=True)
            for name in names:
                shutil.copy2(Path(folder) / name, target / name)

    def add_log(self, source: Path) -> None:
        """Copy the job's output so far."""
        target = self.partial / "log"
        if source.is_file():
            shutil.copyfile(source, target)
        else:
            target.touch()

    def note_written(self, pids: Iterable[int]) -> None:
        """Everything but the GPU's bytes is there by now, and must still be there at the end. StepFailed when a file
        is missing that every dump of processes with these ids has."""
        found = self._find()
        wanted = [f"cpu/{name}.img" for name in ("inventory", "pstree", "files")]
        wanted += [f"cpu/{name}-{pid}.img" for pid in pids for name in ("core", "mm", "pagemap")]
        self._must_have(wanted, found)
        self._written = set(found)

    def _find(self) -> dict[str, Path]:
        found: dict[str, Path] = {}
        for folder, _folders, names in os.walk(self.partial):
            for name in names:
                file = Path(folder) / name
                found[file.relative_to(self.partial).as_posix()] = file
        return found

    def _must_have(self, names: Iterable[str], found: Container[str]) -> None:
        for name in names:
            if name not in found:
                raise StepFailed(
                    step="commit",
                    reason=f"{self.partial / name} has been removed while the image was written",
                    hint="let nobody clean up folders that end in .partial meanwhile",
                )

    def list_files(self, known: dict[str, FileEntry]) -> list[FileEntry]:
        """Entries of all files: those in `known` (by path) as given, the others measured and hashed now. StepFailed
        when one of them, or of those that were noted as written, is not there any more."""
        found = self._find()
        self._must_have([*known, *sorted(self._written)], found)
        to_hash = [f for rel, f in found.items() if rel not in known and not may_lack_hash(self.tier, rel)]
        digests = hashing.of_files(to_hash)
        entries = []
        for rel, file in sorted(found.items()):
            digest = digests.get(file)
            if rel in known:
                entries.append(known[rel])
            elif digest is not None:
                entries.append(FileEntry(path=rel, size=file.stat().st_size, hash=digest))
            else:
                sample, status = hashing.sample_of_file(file), file.stat()
                entries.append(FileEntry(path=rel, size=status.st_size, sample=sample, modified=status.st_mtime_ns))
        return entries

    def list_unhashed(self) -> list[FileEntry]:
        """All files with nothing but their sizes. StepFailed when one that was noted as written is not there."""
        found = self._find()
        self._must_have(sorted(self._written), found)
        return [FileEntry(path=rel, size=file.stat().st_size) for rel, file in sorted(found.items())]

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
