"""What a job holds of the host that cannot be saved, found and named before the job is touched.

CRIU would find most of it too, but only when the job stands still and its GPU state is away; some it would not find,
and bring back as something else. One pass over /proc, a few milliseconds for a small job.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from torpor.errors import Refused
from torpor.paths import PINNED_IN_JOB
from torpor.process import driver_text, maps, peers, tree
from torpor.process.held import Descriptor, descriptors, half_pipes, holder_of
from torpor.process.tree import Process

GHOST_LIMIT = 1 << 30
"""Bytes of a deleted file that still go into an image."""

_ANONYMOUS = frozenset(
    {"[eventfd]", "[eventpoll]", "[signalfd]", "[timerfd]", "[fanotify]", "[pidfd]", "inotify", "bpf-map"}
)
"""Kinds of special descriptors that CRIU saves."""

_HINTS = {
    "[io_uring]": "turn io_uring off in the library that uses it (UV_USE_IO_URING=0 for libuv, for example)",
    "[perf_event]": "end the profiler first",
    "[userfaultfd]": "end what uses userfaultfd first",
}
_PROTOCOLS = frozenset(
    {
        "TCP",
        "TCPv6",
        "UDP",
        "UDPv6",
        "UDP-Lite",
        "UDPLITEv6",
        "RAW",
        "RAWv6",
        "UNIX",
        "UNIX-STREAM",
        "NETLINK",
        "PACKET",
    }
)
"""Kinds of sockets that CRIU saves, as the kernel names them."""

_MEMORY_DEVICES, _TERMINALS, _TUN = 1, frozenset({4, 5, *range(136, 144)}), (10, 200)
_NAMESPACES = ("mnt", "pid", "net", "ipc", "uts", "user", "cgroup")
_GPU = "/dev/nvidia"
_PINNED = f"{PINNED_IN_JOB}/"
"""Files that CRIU does not write (`pinned.py`)."""

_NO_FILES = ("pipe:", "socket:", "anon_inode:", "/memfd:", "/dev/zero", "/SYSV", "/[aio]", "net:", "mnt:", "pid:")


@dataclass(frozen=True)
class Obstacle:
    """`what` completes "it …"; `kind` is a word for programs."""

    process: Process
    what: str
    hint: str
    kind: str
    descriptor: int | None = None


def refuse(processes: Sequence[Process], supervisor: int, stdio: Collection[str], gpu: Collection[int]) -> None:
    """Raise Refused for the first obstacle. `stdio` are the keys of streams that the supervisor has the other end of.

    `gpu` are the host's pids of processes whose GPU devices are gone by the time that CRIU looks.
    """
    for one in obstacles(processes, supervisor, stdio, gpu):
        where = f", descriptor {one.descriptor}" if one.descriptor is not None else ""
        raise Refused(
            f"process {one.process.inner} ({one.process.comm}{where}) cannot be saved: it {one.what}",
            hint=one.hint,
            details={"process": one.process.inner, "descriptor": one.descriptor, "resource": one.kind},
        )


def obstacles(
    processes: Sequence[Process], supervisor: int, stdio: Collection[str], gpu: Collection[int]
) -> Iterator[Obstacle]:
    """Everything in the way of a dump of these processes, the root first."""
    held = list(descriptors(processes))
    inside = {process.pid for process in processes}
    for process in processes:
        yield from _of_process(process, processes[0], supervisor)
        yield from _of_memory(process, process.pid in gpu)
        yield from _of_code(process)
    masters = {one.facts.get("tty-index") for one in held if "tty-index" in one.facts}
    mounts: dict[int, set[str]] = {}
    for one in held:
        found = _of_descriptor(one, stdio, masters, mounts, one.owner.pid in gpu)
        if found is not None:
            what, hint, kind = found
            yield Obstacle(one.owner, what, hint, kind, one.number)
    for one in half_pipes(held):
        # One without another end says the same after a restore, and one whose other end is under way comes back.
        if one.target not in stdio and not one.hung_up and (holder := holder_of(one.target, inside)):
            yield Obstacle(
                one.owner,
                f"has a pipe whose other end is outside the job, at {holder}",
                "close it first, or let a process of the job have the other end",
                "pipe",
                one.number,
            )
    for socket in peers.outward(held):
        hint = "try again in a moment" if socket.passing else "close it before the checkpoint (docs/guide/host.md)"
        one = socket.descriptor
        yield Obstacle(one.owner, f"has {socket.what}", hint, "socket", one.number)


def _of_process(process: Process, root: Process, supervisor: int) -> Iterator[Obstacle]:
    try:
        facts = tree.status(process.pid)
    except OSError:
        return  # it has just ended
    tracer = int(facts.get("TracerPid", "0"))
    if tracer:
        name = tree.name(tracer)
        yield Obstacle(process, f"is traced by process {tracer} ({name})", "detach the debugger first", "traced")
    if facts["State"][0] in "ZX" and int(facts["Threads"]) > 1:  # else it has just ended
        yield Obstacle(process, "runs on without its first thread", "let the main thread wait for the others", "leader")
    if _session(process.pid) == 0:
        what = "belongs to session 0: that of the system's first process, or one from outside this PID namespace"
        yield Obstacle(process, what, "start it with `setsid` or `torpor run`", "session")
    own = [kind for kind in _NAMESPACES if _differs(process.pid, supervisor, kind)]
    if _differs(process.pid, root.pid, "time"):  # a restored job has another than its supervisor
        own.append("time")
    for kind in own:
        hint = "run it without containers or sandboxes of its own inside the job"
        yield Obstacle(process, f"has made a namespace of its own ({kind})", hint, "namespace")


def _session(pid: int) -> int | None:
    """0 for init's and, as after `nsenter`, one led from outside this PID namespace: neither can be restored."""
    try:
        return os.getsid(pid)
    except OSError:
        return None


def _differs(pid: int, other: int, kind: str) -> bool:
    ours, theirs = _namespace(pid, kind), _namespace(other, kind)
    return None not in (ours, theirs) and ours != theirs


def _namespace(pid: int, kind: str) -> int | None:
    try:
        return Path(f"/proc/{pid}/ns/{kind}").stat().st_ino
    except OSError:
        return None


_MAPPING = re.compile(r"([0-9a-f]+-[0-9a-f]+) \S+ \S+ \S+ \d+\s+(.*)")


def _of_memory(process: Process, gpu: bool) -> Iterator[Obstacle]:
    try:
        lines = Path(f"/proc/{process.pid}/maps").read_text(errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        match = _MAPPING.match(line)
        path = match[2] if match else ""
        if not match or path.startswith("["):
            continue
        if path.startswith("/SYSV"):
            yield Obstacle(
                process, "uses System V shared memory", "use POSIX shared memory, or files in /dev/shm", "sysv"
            )
        elif path.startswith(("anon_inode:", "/secretmem")):
            kind = path.partition(":")[2] or "secretmem"
            hint = _HINTS.get(kind, "let the program give it back first")
            yield Obstacle(process, f"has memory of {kind} mapped", hint, kind.strip("[]"))
        elif path.startswith("/dev/") and not path.startswith(("/dev/shm/", "/dev/zero", "/dev/hugepages/")):
            if not (gpu and path.startswith(_GPU)):
                yield Obstacle(process, f"has the device {path} mapped", "let the program unmap it first", "device")
        elif path.endswith(" (deleted)") and not path.startswith((*_NO_FILES, _PINNED)):
            found = _of_deleted(Path(f"/proc/{process.pid}/map_files/{match[1]}"), path)
            if found is not None:
                yield Obstacle(process, *found)


def _of_code(process: Process) -> Iterator[Obstacle]:
    for change in driver_text.changes(process.pid):
        what = f"has the code of {change.path} changed in memory, at {change.offset:#x} of the file"
        hint = "end the monitor or debugger that has put probes or breakpoints there (perf, bpftrace, gdb)"
        yield Obstacle(process, what, hint, "probes")


def _of_deleted(link: Path, path: str) -> tuple[str, str, str] | None:
    try:
        status = link.stat()
    except OSError:
        return None
    name = path.removesuffix(" (deleted)")
    if status.st_nlink and not name.startswith("/dev/shm/"):
        what = f"has the file {name} open, which was deleted under that name and lives on under another"
        return what, "close the file before the checkpoint", "deleted"
    if status.st_size > GHOST_LIMIT and status.st_blocks * 512 > GHOST_LIMIT:
        what = f"has the deleted file {name} of {status.st_size} bytes open, more than an image takes"
        return what, "close the file, or do not delete it while it is open", "deleted"
    return None


def _of_descriptor(
    one: Descriptor, stdio: Collection[str], masters: set[str | None], mounts: dict[int, set[str]], gpu: bool
) -> tuple[str, str, str] | None:
    """(what, hint, kind) of an obstacle, or None."""
    target = one.target
    if target.startswith("anon_inode:"):
        kind = target.removeprefix("anon_inode:")
        if kind not in _ANONYMOUS:
            name = kind.strip("[]")
            return f"has {name} open", _HINTS.get(kind, "close it before the checkpoint"), name
        if kind == "[eventfd]" and one.facts.get("eventfd-semaphore") == "1":
            return "has an eventfd that counts as a semaphore", "let the program close it first", "eventfd-semaphore"
        return None
    if target.startswith("pipe:"):
        if int(one.facts.get("flags", "0"), 8) & os.O_DIRECT:
            return "has a pipe in packet mode (O_DIRECT)", "let the program use a socket pair instead", "pipe"
        return None
    if target.startswith("socket:"):
        return _of_socket(one)
    if target.startswith("/dev/") and not target.startswith("/dev/shm/"):
        return _of_device(one, stdio, masters, gpu)
    if target.startswith("/") and not target.startswith(_NO_FILES):
        known = mounts.setdefault(one.owner.pid, _mounts(one.owner.pid))
        if known and one.facts.get("mnt_id", "") not in known | {""}:
            what = f"has {target} open, of a file system that is not mounted here, such as a POSIX message queue"
            return what, "close it before the checkpoint", "mount"
        if target.endswith(" (deleted)"):
            return _of_deleted(Path(one.path), target)
    return None


def _of_socket(one: Descriptor) -> tuple[str, str, str] | None:
    try:
        protocol = os.getxattr(one.path, "system.sockprotoname").rstrip(b"\0").decode()
    except OSError:
        return None
    if protocol in _PROTOCOLS:
        return None
    return f"has a socket of the kind {protocol}", "close it before the checkpoint", "socket"


def _of_device(
    one: Descriptor, stdio: Collection[str], masters: set[str | None], gpu: bool
) -> tuple[str, str, str] | None:
    try:
        status = Path(one.path).stat()
    except OSError:
        return None
    device = os.major(status.st_rdev), os.minor(status.st_rdev)
    if stat.S_ISCHR(status.st_mode):
        if device[0] == _MEMORY_DEVICES or device == _TUN or (gpu and one.target.startswith(_GPU)):
            return None
        if device[0] in _TERMINALS:
            key = f"tty[{status.st_rdev:x}:{status.st_dev:x}]"
            slave = one.target.startswith("/dev/pts/")
            if not slave or key in stdio or one.target.removeprefix("/dev/pts/") in masters:
                return None
            return f"has the terminal {one.target} open, whose other end is outside the job", "redirect it", "terminal"
    elif not stat.S_ISBLK(status.st_mode):
        return None
    return f"has the device {one.target} open", "let the program close it first", "device"


def _mounts(pid: int) -> set[str]:
    try:
        return {line.split(" ", 1)[0] for line in maps.mounts(pid)}
    except OSError:
        return set()
