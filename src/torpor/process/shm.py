"""Files in /dev/shm that a job has open or mapped: POSIX shared memory and named semaphores.

CRIU takes files as something that stays. These are memory: gone with the next start of the host, absent on another one,
and changed by whoever ran on after an image was taken. So their bytes are part of the image.

A semaphore's maker has it mapped by a name that was only there while it was made. That name is made again before a dump
and before a restore, and is gone after it. CRIU would give such a file a name beside it, but with a number that other
jobs' files have, too, and that stays where CRIU is killed: the next dump then stops at it, of whatever job.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from torpor.errors import ImageDamaged, Refused
from torpor.process import maps, side_by_side, tree
from torpor.process.criu_images import fields, raw_entries, rewritten, write_entries
from torpor.process.timers import FILES

FOLDER = "shm"
"""Of an image; holds one file for each, by number, and `index.json`."""

ROOT = "/dev/shm/"

_REGULAR, _NAME = 3, 6  # a file that is a regular one, and its path
_REMAP = re.compile(r"link_remap\.\d+")
"""What CRIU makes up where a name went so late that we did not see it, and before we looked."""
_GONE = " (deleted)"
"""What the kernel says after a name that is no more."""
_NAME_MAX = 255
_OF_THE_DRIVER = "cuda."
"""What NVIDIA's driver shares between all processes that use it; it looks after that itself."""


@dataclass
class Shared:
    """One file; `same` is the path of an earlier one that is the very same file by another name.

    `passing`: the name is there only during a restore.
    """

    path: str
    mode: int
    uid: int
    gid: int
    size: int
    bytes: str
    same: str | None = None
    passing: bool = False


def lost_names(pids: Iterable[int]) -> dict[str, str]:
    """Paths by which processes (pids of the host) have a file mapped or open that has other names by now, each with one
    of these. What ends during the look is left out. OSError."""
    gone = {path: inode for pid in pids for path, inode in _gone(pid)}
    if not gone:
        return {}
    names = {entry.inode(): entry.path for entry in os.scandir(ROOT)}
    room = _NAME_MAX - len(_GONE)
    return {
        path: names[inode]
        for path, inode in gone.items()
        if inode in names and not os.path.lexists(path) and len(os.fsencode(Path(path).name)) <= room
    }


def made_for_dump(lost: Iterable[str]) -> list[str]:
    """The names that `name_again` makes for these."""
    return [path + _GONE for path in lost]


def made_for(lost: Iterable[str]) -> list[str]:
    """All names that `name_again` and `save` make for these while they work."""
    return [*lost, *made_for_dump(lost)]


def name_again(lost: Mapping[str, str]) -> None:
    """Make the names that `lost_names` found, as CRIU looks for them: as the kernel prints them. Raises OSError."""
    for path, other in lost.items():
        # The last name may have just gone, too: CRIU saves such a file by itself. One may also have stayed from a
        # dump that ended with its host.
        with suppress(FileNotFoundError, FileExistsError):
            os.link(other, path + _GONE)


def save(images: Path, image: Path, lost: Collection[str]) -> None:
    """Copy what the complete dump in `images` refers to; the job stands still. Names that were made for the dump, by
    `name_again` for what was `lost` or by CRIU, are removed.

    Raises OSError, TorporError, and Refused when CRIU had to make a name anywhere else.
    """
    plain = _plain_names(lost)
    try:
        _rename(images, plain)
        paths = sorted(_paths(images))
        passing = {*made_for(lost), *filter(_is_remap, paths)}
        for path in passing:
            if not path.startswith(ROOT):
                where = Path(path).parent
                raise Refused(
                    f"the job has a file of {where} open, which was just deleted there and lives on elsewhere",
                    hint="close the file before the checkpoint, or try again",
                    details={"resource": "deleted"},
                )
        wanted = [path for path in paths if path.startswith(ROOT) and not path.startswith(ROOT + _OF_THE_DRIVER)]
        found = [_as_entry(one) for one in _copy(wanted, image / FOLDER, passing)]
        if found:
            (image / FOLDER / "index.json").write_text(json.dumps(found, indent=1) + "\n")
    finally:
        take_away([*plain.values(), *made_for_dump(lost), *filter(_is_remap, _paths(images))])


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
    """After a restore: the names that were there for it, as far as CRIU left them."""
    take_away(one.path for one in read_index(image) if one.passing)


def take_away(made: Iterable[str | Path]) -> None:
    """Remove names, as far as they are there."""
    for path in made:
        Path(path).unlink(missing_ok=True)


def _is_remap(path: str) -> bool:
    return _REMAP.fullmatch(Path(path).name) is not None


def _plain_names(lost: Iterable[str]) -> dict[str, str]:
    """Give what was lost its very name: with the kernel's word behind it, it would get a second one at the next dump,
    and so on. One whose name has been taken meanwhile stays as it is."""
    plain = {}
    for path in lost:
        with suppress(FileExistsError, FileNotFoundError):
            os.link(path + _GONE, path)
            plain[path + _GONE] = path
            Path(path + _GONE).unlink()
    return plain


def _rename(images: Path, plain: Mapping[str, str]) -> None:
    """The same in the images."""
    raw = raw_entries(images / "files.img", FILES)
    mended = [_renamed(entry, plain) for entry in raw]
    if mended != raw:
        write_entries(images / "files.img", FILES, mended)


def _renamed(entry: bytes, names: Mapping[str, str]) -> bytes:
    regular, name = _regular(entry)
    if name not in names:
        return entry
    return rewritten(entry, {_REGULAR: rewritten(regular, {_NAME: os.fsencode(names[name])})})


def _regular(entry: bytes) -> tuple[bytes, str]:
    """Of a file's entry in CRIU's images: what it says of a regular file, and its path; empty for another kind."""
    regular = fields(entry).get(_REGULAR)
    name = fields(regular).get(_NAME) if isinstance(regular, bytes) else None
    if not isinstance(regular, bytes) or not isinstance(name, bytes):
        return b"", ""
    text = os.fsdecode(name)
    return regular, text if text.startswith("/") else f"/{text}"


def _gone(pid: int) -> Iterator[tuple[str, int]]:
    """What a process has of /dev/shm by a name that is no more: path and inode."""
    with suppress(FileNotFoundError, ProcessLookupError):
        for line in maps.lines(pid):
            _range, _access, _offset, _device, inode, *rest = line.split(maxsplit=5)
            if rest and rest[0].startswith(ROOT) and rest[0].endswith(_GONE):
                yield rest[0].removesuffix(_GONE), int(inode)
        for number in os.listdir(f"/proc/{pid}/fd"):
            with suppress(FileNotFoundError):
                link = Path(f"/proc/{pid}/fd/{number}")
                target = str(link.readlink())
                if target.startswith(ROOT) and target.endswith(_GONE):
                    yield target.removesuffix(_GONE), link.stat().st_ino


def _paths(images: Path) -> set[str]:
    return {path for entry in raw_entries(images / "files.img", FILES) if (path := _regular(entry)[1])}


def _as_entry(one: Shared) -> dict[str, object]:
    entry = asdict(one)
    if not one.passing:
        del entry["passing"]
    return entry


def _copy(paths: list[str], folder: Path, passing: Collection[str]) -> list[Shared]:
    found: list[Shared] = []
    first: dict[int, str] = {}
    bytes_of: list[tuple[Path, Path, int]] = []
    # Other names of what has a passing one: the real ones must be there again, and come first.
    inodes = {Path(path).lstat().st_ino for path in paths if path in passing}
    others = [entry.path for entry in os.scandir(ROOT) if entry.inode() in inodes and entry.path not in paths]
    ordered = sorted({*paths, *others}, key=lambda path: (path in passing, path))
    for path in ordered:
        try:
            status = Path(path).lstat()
        except FileNotFoundError:
            continue  # deleted: CRIU has its bytes
        if not stat.S_ISREG(status.st_mode):
            continue
        one = Shared(path, stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid, status.st_size, "")
        one.passing = path in passing
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
    known = {field.name for field in dataclasses.fields(Shared)}
    found = [Shared(**{key: value for key, value in entry.items() if key in known}) for entry in entries]
    for one in found:
        one.passing |= _is_remap(one.path)  # which older images do not say
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
            mapped = (inode in line and line.rstrip().endswith(str(path)) for line in maps.lines(int(entry)))
            if any(mapped) or any(
                str(Path(f"/proc/{entry}/fd", number).readlink()) == str(path)
                for number in os.listdir(f"/proc/{entry}/fd")
            ):
                return f"process {entry} ({tree.name(int(entry))})"
        except OSError:
            continue
    return None
