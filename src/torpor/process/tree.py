"""A job's processes as the host sees them, read from /proc."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

GPU_DEVICE = "/dev/nvidia"
_SUPERVISOR_INSIDE = 1
_LOOKS = 5
"""At a process's ancestors, of which one may end during a look: then another becomes its parent."""


@dataclass(frozen=True)
class Process:
    """`pid`, `parent` and `threads` (ascending) are the host's numbers, `inner` is the pid as the job sees it.

    `uses_gpu`: it has a `/dev/nvidia*` device open or mapped; None where this process may not look at it.
    """

    pid: int
    inner: int
    parent: int
    comm: str
    threads: tuple[int, ...]
    uses_gpu: bool | None


@dataclass(frozen=True)
class Tree:
    """`processes`: the job's root first, then its descendants, parents before children; empty when the root is gone.

    `strays` live in the job's namespace without descending from its root: orphans that the supervisor adopted, and
    visitors. A dump of the root would miss them. A CRIU at work is neither. `visible`: visitors would have been found,
    which takes the right to look at the supervisor.
    """

    supervisor: int
    processes: tuple[Process, ...]
    strays: tuple[Process, ...]
    visible: bool = True

    @property
    def root(self) -> Process | None:
        return self.processes[0] if self.processes else None

    @property
    def hidden(self) -> str | None:
        """In words, what of the job this process may not look at, if there is anything."""
        found = (f"process {one.inner} ({one.comm})" for one in (*self.processes, *self.strays) if one.uses_gpu is None)
        return next(found, None if self.visible else "the supervisor")


def read(supervisor: int, root: int, ignore: frozenset[int] = frozenset()) -> Tree:
    """The job under the supervisor with this host pid; `root` is its root's pid as the job sees it.

    `ignore` are pids inside of what does not belong to the job (`client.Info.criu`), left out with their descendants.
    What ends during the look is left out. Takes about a millisecond for ten processes.
    """
    ordered: list[int] = []
    strays: list[int] = []
    host_root = host_pid(supervisor, root)
    if host_root is not None:
        ordered = family(host_root)
    skipped = {pid for child in _children(supervisor) if _inner(child) in ignore for pid in family(child)}
    known = {supervisor, *ordered, *skipped}
    for child in _children(supervisor):
        if child not in known:
            strays += family(child)
    inside = _same_namespace(supervisor)
    for pid in inside or ():
        if pid not in known and pid not in strays:
            # One that was started since the first look is not in it, and no stray.
            (ordered if host_root is not None and _descends(pid, host_root) else strays).append(pid)
    return Tree(
        supervisor,
        tuple(found for pid in ordered if (found := _read(pid)) is not None),
        tuple(found for pid in strays if (found := _read(pid)) is not None),
        inside is not None,
    )


def _descends(pid: int, ancestor: int) -> bool:
    while pid > 1:
        if pid == ancestor:
            return True
        parent = _field(pid, "PPid")
        if parent is None:
            return True  # it has ended meanwhile, and is read as such
        pid = int(parent)
    return False


def below(supervisor: int, root: int) -> Tree:
    """A process of the host and its descendants, by host pids alone; `supervisor` is whoever looks after them."""
    found = (_read(pid) for pid in family(root))
    return Tree(supervisor, tuple(one for one in found if one is not None), ())


def host_pid(supervisor: int, inner: int) -> int | None:
    """The host's pid of the supervisor's child that the job knows as `inner`; None when it is gone or a zombie."""
    for child in _children(supervisor):
        if _inner(child) == inner and _field(child, "State") not in (None, "Z", "X"):
            return child
    return None


def is_inside(supervisor: int, inner: int, pid: int) -> bool:
    """Whether the process `pid` of the host is a descendant of the supervisor that the job knows as `inner`.

    It takes no rights over either.
    """
    for _look in range(_LOOKS):
        above: int | None = pid if _inner(pid) == inner else 0
        while above is not None and above > 1:
            if above == supervisor:
                return True
            above = int(parent) if (parent := _field(above, "PPid")) else None
        if above is not None:
            return False
    return False


def frozen_by(pid: int, mounts: Path = Path("/sys/fs/cgroup")) -> Path | None:
    """The cgroup that keeps this process frozen, or None: nobody can stop, ask or save what is frozen from outside.

    `mounts` is where the cgroup file systems are, version 2 or, in their folders, 1 and both side by side.
    """
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text(errors="surrogateescape").splitlines()
    except OSError:
        return None
    for line in lines:
        number, controllers, path = line.split(":", 2)
        inside = path.lstrip("/")
        if number == "0":
            places = [(mounts / inside, "cgroup.events"), (mounts / "unified" / inside, "cgroup.events")]
        elif "freezer" in controllers.split(","):
            places = [(mounts / "freezer" / inside, "freezer.state")]
        else:
            continue
        for group, name in places:
            try:
                said = (group / name).read_text().split()
            except OSError:
                continue
            if said == ["FROZEN"] or said == ["FREEZING"] or ("frozen", "1") in pairwise(said):
                return group
    return None


def _read(pid: int) -> Process | None:
    try:
        facts = status(pid)
        threads = tuple(sorted(int(name) for name in os.listdir(f"/proc/{pid}/task")))
        if facts["State"][0] in "ZX" and len(threads) < 2:  # its first thread may have ended before the others
            return None
        return Process(
            pid=pid,
            inner=int(facts["NSpid"].split()[-1]),
            parent=int(facts["PPid"]),
            comm=facts["Name"],
            threads=threads,
            uses_gpu=_uses_gpu(pid),
        )
    except (OSError, KeyError):
        return None


def status(pid: int) -> dict[str, str]:
    """The lines of /proc/<pid>/status by name; `pid` may be a thread's. OSError when it is gone."""
    return status_at(f"/proc/{pid}/status")


def status_at(path: str) -> dict[str, str]:
    """The same of a status file by its path. A program's name may be cut in the midst of a character."""
    fields = {}
    for line in Path(path).read_text(errors="replace").split("\n"):
        name, _, value = line.partition(":")
        fields[name] = value.strip()
    return fields


def name(pid: int) -> str:
    """What /proc calls it; "?" when it is gone."""
    try:
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    except OSError:
        return "?"


def _field(pid: int, name: str) -> str | None:
    try:
        value = status(pid).get(name)
    except OSError:
        return None
    return value.split()[0] if value else None


def _inner(pid: int) -> int | None:
    try:
        return int(status(pid)["NSpid"].split()[-1])
    except (OSError, KeyError):
        return None


def _children(pid: int) -> list[int]:
    children: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            children += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
    except OSError:
        pass
    return children


def family(pid: int) -> list[int]:
    """A process of the host and all its descendants, parents before children, by their pids there."""
    found = [pid]
    for current in found:
        found += _children(current)
    return found


def _same_namespace(supervisor: int) -> list[int] | None:
    """Every process of the supervisor's PID namespace, when that is not this process's own; None without the right to
    look."""
    try:
        inside = Path(f"/proc/{supervisor}/ns/pid").stat().st_ino
        if inside == Path("/proc/self/ns/pid").stat().st_ino:
            return []
    except PermissionError:
        return None
    except OSError:
        return []
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if Path(f"/proc/{name}/ns/pid").stat().st_ino == inside:
                    found.append(int(name))
            except OSError:
                continue
    return found


def _uses_gpu(pid: int) -> bool | None:
    try:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            try:
                if str(descriptor.readlink()).startswith(GPU_DEVICE):
                    return True
            except PermissionError:
                raise
            except OSError:
                continue  # closed meanwhile, or of a path too long to be told
        return GPU_DEVICE in Path(f"/proc/{pid}/maps").read_text(errors="replace")
    except PermissionError:
        return None  # it is there all the same
