"""Why a process may be without Torpor's library, as /proc tells it: what to do about it is another thing each time."""

from __future__ import annotations

import os
import struct
from pathlib import Path

from torpor.paths import JOB_DIR_IN_JOB
from torpor.process import tree

_AT_SECURE = 23
_PAIR = struct.Struct("<QQ")
_OTHERWISE = (
    "let it start with the LD_PRELOAD that its parent has; statically linked programs, and such as open the driver by "
    "dlmopen, cannot be intercepted"
)


def why(pid: int, library: Path) -> str:
    """What to do so that the process with this host pid would have `library`, a path as the job sees it."""
    if _has_more_rights(pid):
        return (
            "it is a program with more rights than its caller (set-user-id, or with file capabilities), for which the "
            "loader leaves LD_PRELOAD out: take those from the file, and start it as the user that it needs"
        )
    if str(library) not in _variable(pid, "LD_PRELOAD").replace(":", " ").split():
        return (
            "its environment has lost the LD_PRELOAD that the job began with, which sudo takes out, as do login shells "
            "(`su -`): change the user with setpriv, gosu, runuser or plain su, or hand the variables on "
            '(`sudo env LD_PRELOAD="$LD_PRELOAD" TORPOR_JOB_DIR="$TORPOR_JOB_DIR" …`)'
        )
    if library.parent.parent != JOB_DIR_IN_JOB and _user(pid) != os.geteuid():
        return (
            f"it runs as another user, who may not read {library}: start the job with the right to make namespaces "
            "(CAP_SYS_ADMIN), in which it can, or as that user"
        )
    return _OTHERWISE


def _user(pid: int) -> int | None:
    try:
        return int(tree.status(pid)["Uid"].split()[1])
    except (OSError, KeyError):
        return None


def _has_more_rights(pid: int) -> bool:
    """Whether the kernel told the loader to be careful when this process began its program."""
    try:
        vector = Path(f"/proc/{pid}/auxv").read_bytes()
    except OSError:
        return False
    whole = len(vector) - len(vector) % _PAIR.size
    return any(key == _AT_SECURE and value != 0 for key, value in _PAIR.iter_unpack(vector[:whole]))


def _variable(pid: int, name: str) -> str:
    """A variable as the program was started with it; empty where there is none, or where it may not be looked at."""
    try:
        given = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return ""
    start = f"{name}=".encode()
    return next((one[len(start) :].decode(errors="replace") for one in given if one.startswith(start)), "")
