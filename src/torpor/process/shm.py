"""Files in /dev/shm that a job has open or mapped: POSIX shared memory and named semaphores.

CRIU takes files as something that stays. These are memory: gone with the next start of the host, absent on another one,
and changed by whoever ran on after an image was taken. So their bytes are part of the image.

A semaphore's maker has it mapped by a name that was only there while it was made. CRIU gives such a file a name beside
it (`link_remap.N`) for the time in between; those names are in the image too, and are there only during a restore.
"""

from __future__ import annotations

import json
import os
import re
import stat
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from torpor.errors import ImageDamaged, Refused
from torpor.process import side_by_side, tree
from torpor.process.criu_images import fields, raw_entries
from torpor.process.timers import FILES

FOLDER = "shm"
"""Of an image; holds one file for each, by number, and `index.json`."""

ROOT = "/dev/shm/"

_REGULAR, _NAME = 3, 6  # a file that is a regular one, and its path
_REMAP = re.compile(r"link_remap\.\d+")
_OF_THE_DRIVER = "cuda."
"""What NVIDIA's driver shares between all processes that use it; it looks after that itself."""


@dataclass
class Shared:
    """One file; `same` is the path of an earlier one that is the very same file by another name."""

    path: str
    mode: int
    uid: int
    gid: int
    size: int
    bytes: str
    same: str | None = None

    @property
    def passing(self) -> bool:
        """Whether the name is CRIU's, and there only during a restore."""
        return _REMAP.fullmatch(Path(self.path).name) is not None


def save(images: Path, image: Path) -> None:
    """Copy what the complete dump in `images` refers to; the job stands still. CRIU's names are removed.

    Raises OSError, and Refused when CRIU had to make a name anywhere else.
    """
    paths = sorted(_paths(images))
    remaps = [Path(path) for path in paths if _REMAP.fullmatch(Path(path).name)]
    try:
        for remap in remaps:
            if not str(remap).startswith(ROOT):
                raise Refused(
                    f"the job has a file of {remap.parent} open, which was just deleted there and lives on elsewhere",
                    hint="close the file before the checkpoint, or try again",
                    details={"resource": "deleted"},
                )
        wanted = [path for path in paths if path.startswith(ROOT) and not path.startswith(ROOT + _OF_THE_DRIVER)]
        found = _copy(wanted, image / FOLDER)
        if found:
            (image / FOLDER / "index.json").write_text(json.dumps([asdict(one) for one in found], indent=1) + "\n")
    finally:
        for remap in remaps:
            remap.unlink(missing_ok=True)


def put_back(image: Path) -> list[Path]:
    """Make the files be as the image has them; returns those that must go if the restore fails.

    Raises Refused when another process uses one of them, ImageDamaged, OSError.
    """
    made: list[Path] = []
    try:
        for one in read_index(image):
            path = Path(one.path)
            if one.same is not None:
                _link(Path(one.same), path, made)
            else:
                _write(one, image / FOLDER / one.bytes, made)
    except BaseException:
        take_away(made)
        raise
    return made


def tidy(image: Path) -> None:
    """After a restore: CRIU's names, as far as it left them."""
    for one in read_index(image):
        if one.passing:
            Path(one.path).unlink(missing_ok=True)


def take_away(made: list[Path]) -> None:
    for path in made:
        path.unlink(missing_ok=True)


def _paths(images: Path) -> set[str]:
    found = set()
    for entry in raw_entries(images / "files.img", FILES):
        regular = fields(entry).get(_REGULAR)
        if isinstance(regular, bytes):
            name = fields(regular).get(_NAME)
            if isinstance(name, bytes):
                text = os.fsdecode(name)
                found.add(text if text.startswith("/") else f"/{text}")
    return found


def _copy(paths: list[str], folder: Path) -> list[Shared]:
    found: list[Shared] = []
    first: dict[int, str] = {}
    bytes_of: list[tuple[Path, Path, int]] = []
    # Other names of what CRIU named: the real ones must be there again, and come first.
    inodes = {Path(path).lstat().st_ino for path in paths if _REMAP.fullmatch(Path(path).name)}
    others = [entry.path for entry in os.scandir(ROOT) if entry.inode() in inodes and entry.path not in paths]
    ordered = sorted({*paths, *others}, key=lambda path: (_REMAP.fullmatch(Path(path).name) is not None, path))
    for path in ordered:
        try:
            status = Path(path).lstat()
        except FileNotFoundError:
            continue  # deleted: CRIU has its bytes
        if not stat.S_ISREG(status.st_mode):
            continue
        one = Shared(path, stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid, status.st_size, "")
        if status.st_ino in first:
            one.same = first[status.st_ino]
        else:
            first[status.st_ino] = path
            one.bytes = f"{len(found):04d}"
            folder.mkdir(mode=0o700, exist_ok=True)
            bytes_of.append((Path(path), folder / one.bytes, one.size))
        found.append(one)
    with ExitStack() as stack:
        parts = []
        for source, target, size in bytes_of:
            file = stack.enter_context(target.open("xb"))
            file.truncate(size)
            parts += side_by_side.parts(str(source), size, file.fileno())
        side_by_side.copy(parts)
    return found


def read_index(image: Path) -> list[Shared]:
    """The files of an image, in the order in which they are made; ImageDamaged."""
    try:
        entries = json.loads((image / FOLDER / "index.json").read_text())
    except FileNotFoundError:
        return []
    found = [Shared(**entry) for entry in entries]
    for one in found:
        if not one.path.startswith(ROOT) or ".." in one.path or "/" in one.bytes:
            raise ImageDamaged(f"the image's {FOLDER}/index.json speaks of {one.path}")
    return found


def _write(one: Shared, source: Path, made: list[Path]) -> None:
    path = Path(one.path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        if user := _user(path):
            raise Refused(
                f"{path}, which the job shares memory by, is in use by {user}",
                hint="wake the job when that has ended: two lives of a job cannot share their memory",
                details={"resource": "shm", "path": str(path)},
            )
    else:
        made.append(path)
    with path.open("wb") as file:
        os.fchmod(file.fileno(), 0o600)  # nobody else's to read meanwhile
        file.truncate(one.size)
        side_by_side.copy(side_by_side.parts(str(source), one.size, file.fileno()))
        os.fchown(file.fileno(), one.uid, one.gid)
        os.fchmod(file.fileno(), one.mode)


def _link(target: Path, path: Path, made: list[Path]) -> None:
    if path.exists():
        if path.samefile(target):
            return
        path.unlink()
    os.link(target, path)
    made.append(path)


def _user(path: Path) -> str | None:
    """A process of the host that has this file mapped or open."""
    status = path.stat()
    inode = f" {status.st_ino} "
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            maps = Path(f"/proc/{entry}/maps").read_text(errors="replace")
            if any(inode in line and line.rstrip().endswith(str(path)) for line in maps.splitlines()) or any(
                str(Path(f"/proc/{entry}/fd", number).readlink()) == str(path)
                for number in os.listdir(f"/proc/{entry}/fd")
            ):
                return f"process {entry} ({tree.name(int(entry))})"
        except OSError:
            continue
    return None
