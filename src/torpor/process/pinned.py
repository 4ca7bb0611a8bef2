"""Pinned host memory of a job that lies in files without names (docs/design/pinned.md).

The files are on a tmpfs that only the job has. CRIU takes each as a file of somebody else's (`--external`, and at a
restore `--inherit-fd`), so it writes none of their bytes: those are files of the image in `pinned/`, in pieces.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from torpor.errors import ImageDamaged
from torpor.paths import PINNED_IN_JOB
from torpor.process import maps

FOLDER = "pinned"
"""Of an image; holds the pieces of all files, by number, and `index.json`."""

_INDEX = "index.json"


@dataclass(frozen=True)
class PinnedFile:
    """A file of a live job: CRIU's key, its size in bytes and its mode, and a path that leads to it.

    The path is that of a mapping, so it is good while the job stands still. No descriptor is kept: there may be more
    files than anybody may have open.
    """

    key: str
    size: int
    mode: int
    path: Path


@dataclass(frozen=True)
class Saved:
    """A file of an image: `pieces` are names in `pinned/` with their lengths, in order."""

    key: str
    size: int
    mode: int
    pieces: list[tuple[str, int]]


def find(pids: Iterable[int]) -> list[PinnedFile]:
    """The files that processes (pids of the host) of a job have mapped, each once.

    The processes may go on meanwhile, as long as they neither allocate nor free. Raises OSError.
    """
    found: dict[str, PinnedFile] = {}
    for pid in pids:
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            _look(pid, found)
    return list(found.values())


def write_index(image: Path, files: Iterable[Saved]) -> None:
    (image / FOLDER / _INDEX).write_text(json.dumps([asdict(file) for file in files], indent=1) + "\n")


def read_index(image: Path) -> list[Saved]:
    """The files of an image; ImageDamaged when the index cannot be one."""
    try:
        text = (image / FOLDER / _INDEX).read_text()
    except FileNotFoundError:
        return []
    try:
        found = [
            Saved(
                str(entry["key"]),
                int(entry["size"]),
                int(entry["mode"]),
                [(str(name), int(length)) for name, length in entry["pieces"]],
            )
            for entry in json.loads(text)
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise ImageDamaged(f"the image's {FOLDER}/{_INDEX} is damaged: {error}") from error
    for file in found:
        if any("/" in name or length <= 0 for name, length in file.pieces):
            raise ImageDamaged(f"the image's {FOLDER}/{_INDEX} names pieces that cannot be")
        if sum(length for _name, length in file.pieces) != file.size:
            raise ImageDamaged(f"the pieces in the image's {FOLDER}/{_INDEX} do not add up")
    return found


def to_make(image: Path) -> list[dict[str, object]]:
    """What a supervisor has to make before CRIU restores the image (`pinned_fill`)."""
    folder = (image / FOLDER).absolute()
    return [
        {
            "key": file.key,
            "size": file.size,
            "mode": file.mode,
            "pieces": [(str(folder / name), length) for name, length in file.pieces],
        }
        for file in read_index(image)
    ]


def _look(pid: int, found: dict[str, PinnedFile]) -> None:
    mount = _mount(pid)
    if mount is None:
        return
    number, device = mount
    for line in maps.lines(pid):
        addresses, _access, _offset, where, inode, *_path = line.split(maxsplit=5)
        key = f"file[{number:x}:{int(inode):x}]"
        if where != device or key in found:
            continue
        start, stop = (int(part, 16) for part in addresses.split("-"))
        path = Path(f"/proc/{pid}/map_files/{start:x}-{stop:x}")
        with suppress(FileNotFoundError):  # it has let go of this one
            status = path.stat()
            found[key] = PinnedFile(key, status.st_size, status.st_mode & 0o7777, path)


def _mount(pid: int) -> tuple[int, str] | None:
    """Number of the job's tmpfs in its mount namespace, and its device as maps have it; None where there is none."""
    for line in maps.mounts(pid):
        number, _parent, device, _root, point, *_rest = line.split(" ")
        if point == str(PINNED_IN_JOB):
            major, minor = (int(part) for part in device.split(":"))
            return int(number), f"{major:02x}:{minor:02x}"
    return None
