"""What a command's first word says of whether Torpor's library will be in the program that it starts in the end."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path

_CLEANERS = frozenset({"sudo", "doas", "pkexec"})
_LOGINS = frozenset({"su", "runuser"})
_LOGIN_OPTIONS = frozenset({"-", "-l", "--login"})
_CHANGERS = frozenset({"setpriv", "gosu", "su-exec", "chpst", "setuidgid", "s6-setuidgid", *_LOGINS})

_SEE = "what uses the GPU behind it cannot be saved (docs/guide/host.md, other users)"


def warning(argv: Sequence[str], namespaces: bool) -> str | None:
    """One line for the user; None where nothing is known to be in the way. `namespaces`: the job has its own."""
    program = Path(argv[0]).name
    handed_on = any(word.startswith(("LD_PRELOAD=", "--preserve-env=LD_PRELOAD")) for word in argv[1:])
    if program in _CLEANERS and not handed_on:
        return f"{program} takes LD_PRELOAD out of the environment: {_SEE}"
    if program in _LOGINS and _LOGIN_OPTIONS & set(argv[1:]) and not handed_on:
        return f"{program} with a login shell takes LD_PRELOAD out of the environment: {_SEE}"
    if program in _CHANGERS and not namespaces:
        return f"without namespaces of its own (CAP_SYS_ADMIN) a job's folder is closed to other users: {_SEE}"
    if _has_more_rights(argv[0]):
        return f"{program} has more rights than its caller, so the loader leaves LD_PRELOAD out: {_SEE}"
    return None


def _has_more_rights(program: str) -> bool:
    """Whether the file changes the user; root, who has all rights, gains none by becoming itself."""
    path = shutil.which(program)
    if path is None:
        return False
    try:
        found = Path(path).stat()
    except OSError:
        return False
    return bool(found.st_mode & stat.S_ISUID) and found.st_uid != os.geteuid()
