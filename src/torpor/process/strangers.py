"""Processes that Torpor did not start: which one is meant, and whether it can be taken as it is."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from torpor.errors import NoRights, NotFound, Refused
from torpor.process import maps, tree

_NAMESPACES = {
    "pid": "PID namespace",
    "mnt": "mount namespace",
    "net": "network namespace",
    "ipc": "IPC namespace",
    "uts": "host name (UTS) namespace",
    "user": "user namespace",
    "time": "time namespace",
}


@dataclass(frozen=True)
class Stranger:
    """`pid` is the process's, also where a thread of it was named."""

    pid: int
    command: list[str]
    cwd: str


def look_at(pid: int, client: int) -> Stranger:
    """The process to which `pid` (of a process or a thread) belongs.

    Raises NotFound when there is none, Refused when it cannot be taken: `client` is among its descendants, it is not
    a program, or lives in namespaces of its own. NoRights when it cannot be looked at.
    """
    try:
        status = tree.status(pid)
        process = int(status["Tgid"])
        command = [part.decode(errors="replace") for part in Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")]
        facts = tree.status(process)
    except (FileNotFoundError, ProcessLookupError, KeyError):
        raise NotFound(f"there is no process {pid}") from None
    name = f"process {process} ({status['Name']})"
    if facts["State"][0] in "ZX" and len(os.listdir(f"/proc/{process}/task")) < 2:
        raise NotFound(f"{name} has ended")
    if "VmSize" not in facts:  # no memory of its own; a program in mid-exec has some, although no command line yet
        raise Refused(f"{name} is part of the kernel", details={"process": process, "resource": "kernel"})
    try:
        cwd = str(Path(f"/proc/{process}/cwd").readlink())
        below = {one.pid for one in tree.below(0, process).processes} if process != 1 else {client}
        foreign = [what for kind, what in _NAMESPACES.items() if _namespace(process, kind) != _namespace("self", kind)]
    except PermissionError as error:
        raise NoRights(f"{name} cannot be looked at: {error.strerror}", hint="run as root") from error
    if foreign:
        job = _job_of(process)
        raise Refused(
            f"{name} belongs to a job of Torpor ({job})" if job else f"{name} has a {foreign[0]} of its own",
            hint=f"use `torpor checkpoint {job}`" if job else "run torpor inside the same container",
            details={"process": process, "resource": "namespace"},
        )
    if client in below:
        raise Refused(
            f"{name} is an ancestor of this torpor itself",
            hint="name the program's own process",
            details={"process": process, "resource": "ancestor"},
        )
    return Stranger(process, [part for part in command if part] or [status["Name"]], cwd)


def _namespace(process: int | str, kind: str) -> int:
    return Path(f"/proc/{process}/ns/{kind}").stat().st_ino


def _job_of(process: int) -> str | None:
    """The name of the job of ours in whose mount namespace the process lives."""
    for line in maps.mounts(process):
        fields = line.split()
        if fields[4] == "/run/torpor/job":
            return fields[3].rsplit("/", 1)[-1]
    return None
