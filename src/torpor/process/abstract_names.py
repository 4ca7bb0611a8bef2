"""Gives the driver's abstract Unix socket of a restored job a name that nobody else can want.

The driver gives each process that uses a GPU an abstract socket, by which other processes of the job may find it; its
name has the process's id and the number of its PID namespace. Abstract names belong to the network namespace, which
jobs share with the host. So a second copy finds its name taken, and a process in a new namespace that got the old
number would find its own taken by a restored one. The restored one gets another name: nobody looks for it there, as
long as no other process of the job uses a GPU. With several such processes the names stay, since one could otherwise
reach its counterpart in another copy, and a copy beside the first is refused (`mounts.fork` keeps Torpor's own
namespaces from numbers that such names have). Names that the program chose itself are its address, and never changed.
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
    """The folder to restore from: one in `work` that stands for `images`, with a name of its own, or `images`.

    Raises TorporError for an image that is not as expected, OSError.
    """
    raw = raw_entries(images / "files.img", _FILES)
    names = {name for entry in raw if (name := _name(entry)).startswith(_OF_THE_DRIVER)}
    if len(names) != 1:
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
