"""Lets a copy of a job be restored while the first lives, although both have the driver's abstract Unix socket.

The driver gives each process that uses a GPU an abstract socket, by which other processes of the job may find it.
Abstract names belong to the network namespace, which jobs share with the host, so a second copy finds its name taken.
It gets another name: nobody looks for it there, as long as no other process of the job uses a GPU. With several such
processes the restore stays refused, since one could otherwise reach its counterpart in the other copy. Names that the
program chose itself are its address, and never changed.
"""

from __future__ import annotations

import re
import secrets
import shutil
from pathlib import Path

from torpor.process.criu_images import fields, raw_entries, rewritten, write_entries

_FILES = 0x56303138
_UNIX, _NAME = 16, 11  # a file that is a Unix socket, and its address
_OF_THE_DRIVER = b"\0cuda-"
_OURS = re.compile(rb"-torpor-[0-9a-f]{8}$")
_LONGEST = 107


def free(images: Path, work: Path) -> Path:
    """The folder to restore from: `images`, or one in `work` that stands for it, with a name that is free.

    Raises TorporError for an image that is not as expected, OSError.
    """
    raw = raw_entries(images / "files.img", _FILES)
    names = {name for entry in raw if (name := _name(entry)).startswith(_OF_THE_DRIVER)}
    if len(names) != 1 or not names & _bound():
        return images
    other = _another(*names)
    stand_in = work / "renamed"
    shutil.rmtree(stand_in, ignore_errors=True)
    stand_in.mkdir(mode=0o700)
    for file in images.iterdir():
        (stand_in / file.name).symlink_to(file.absolute())
    (stand_in / "files.img").unlink()
    changed = [_renamed(entry, other) if _name(entry) in names else entry for entry in raw]
    write_entries(stand_in / "files.img", _FILES, changed)
    return stand_in


def _name(entry: bytes) -> bytes:
    socket = fields(entry).get(_UNIX)
    name = fields(socket).get(_NAME) if isinstance(socket, bytes) else None
    return name if isinstance(name, bytes) else b""


def _renamed(entry: bytes, name: bytes) -> bytes:
    socket = fields(entry)[_UNIX]
    assert isinstance(socket, bytes)
    return rewritten(entry, {_UNIX: rewritten(socket, {_NAME: name})})


def _another(name: bytes) -> bytes:
    """As long as the name is not too long, what follows it (NULs, which count in such a name) stays."""
    plain = name.rstrip(b"\0")
    stem = _OURS.sub(b"", plain)
    ending = b"-torpor-" + secrets.token_hex(4).encode()
    return (stem[: _LONGEST - len(ending)] + ending + name[len(plain) :])[:_LONGEST]


def _bound() -> set[bytes]:
    """The abstract names that are in use in this network namespace."""
    found = set()
    for line in Path("/proc/net/unix").read_bytes().splitlines():
        parts = line.split(maxsplit=7)
        if len(parts) == 8 and parts[7].startswith(b"@"):
            found.add(parts[7].replace(b"@", b"\0"))
    return found
