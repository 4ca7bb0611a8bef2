"""Makes the root of a dumped tree the leader of a session, in CRIU's images.

A job that `torpor run` started leads a session of its own. A process that somebody else started belongs to a session
and a process group whose leaders are, say, its shell; CRIU restores those ids only where they exist. So the members of
the foreign session become members of one that the root leads, with the terminal, if there is one, as its own. A tree
changed like this is restored, and dumped again, as any other.
"""

from __future__ import annotations

from pathlib import Path

from torpor.errors import TorporError
from torpor.process.criu_images import fields, number, numbers, raw_entries, rewritten, write_entries

_PSTREE, _TTY_INFO = 0x50273030, 0x59453036
_PID, _PGID, _SID, _THREAD = 1, 3, 4, 5  # fields of a process
_ROOM = 64  # ids that CRIU and its like may use during a restore
_TTY_SID, _TTY_PGRP = 6, 7  # fields of a terminal


def lead(images: Path, root: int) -> None:
    """Rewrite the images of a complete dump where the session of `root` is led from outside. OSError, TorporError."""
    path = images / "pstree.img"
    raw = raw_entries(path, _PSTREE)
    tree = [fields(entry) for entry in raw]
    [leader] = [process for process in tree if number(process, _PID) == root]
    inside = {number(process, _PID) for process in tree}
    session, group = number(leader, _SID), number(leader, _PGID)
    if session == root:
        return

    def led(pgid: int) -> int:
        return root if pgid == group or pgid not in inside else pgid

    changed = []
    for entry, process in zip(raw, tree, strict=True):
        of_session = number(process, _SID) == session
        changes = {_SID: root, _PGID: led(number(process, _PGID))} if of_session else {}
        changed.append(rewritten(entry, changes))
    write_entries(path, _PSTREE, changed)

    terminals = images / "tty-info.img"
    if terminals.exists():
        kept = []
        for entry in raw_entries(terminals, _TTY_INFO):
            tty = fields(entry)
            ours = number(tty, _TTY_SID) == session
            kept.append(rewritten(entry, {_TTY_SID: root, _TTY_PGRP: led(number(tty, _TTY_PGRP))} if ours else {}))
        write_entries(terminals, _TTY_INFO, kept)


def identifiers(images: Path) -> set[int]:
    """Every process, thread, group and session id of a dumped tree."""
    found: set[int] = set()
    for entry in raw_entries(images / "pstree.img", _PSTREE):
        found.update(number_ for field, number_ in numbers(entry) if field in (_PID, _PGID, _SID, _THREAD))
    return {one for one in found if 0 < one < _most()}  # a zombie has a group of -1


def room(taken: set[int]) -> int:
    """The id after which the next `_ROOM` are not among `taken`; 0 where that is the beginning, as it mostly is."""
    before = 1
    for one in [*sorted(taken), _most()]:
        if one - before > _ROOM:
            return 0 if before == 1 else before
        before = one
    raise TorporError("the job's process ids leave none to CRIU")


def _most() -> int:
    return int(Path("/proc/sys/kernel/pid_max").read_text())
