"""The job's namespaces, made from inside: what runs between the starter's fork and the supervisor's first line.

Only the supervisor's process imports this, once, and through `ctypes`, since Python 3.11 has no unshare or mount.
"""

from __future__ import annotations

import ctypes
import os

JOB_DIR_INSIDE = "/run/torpor/job"
PINNED_INSIDE = "/run/torpor/pinned"

_CLONE_NEWNS = 0x00020000
_CLONE_NEWPID = 0x20000000
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 2, 4, 8
_PR_SET_CHILD_SUBREAPER = 36
_MS_BIND, _MS_REC, _MS_SLAVE = 0x1000, 0x4000, 1 << 19


def unshare() -> None:
    """Leave the mount namespace, and make a PID namespace for the children to come. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS | _CLONE_NEWPID):
        raise _error("unshare")
    # Slaves rather than private mounts: nothing that happens here shows outside, but a file system that the host
    # mounts later, say to put an image there, shows here.
    _mount(libc, None, "/", None, _MS_REC | _MS_SLAVE)


def fork() -> int:
    """As `os.fork`, after `unshare`: into a PID namespace whose number is part of no name of the driver's.

    The driver names a process's abstract socket after its PID namespace, and all jobs share the host's names. A
    restored process keeps its name, while the number can be given to a new namespace: CUDA would not start in there.
    """
    home = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    held: list[int] = []
    try:
        while True:
            verdict, tell = os.pipe2(os.O_CLOEXEC)
            pid = os.fork()
            if pid == 0:
                os.close(tell)
                if not os.read(verdict, 1):
                    os._exit(0)
                os.close(verdict)
                return 0
            os.close(verdict)
            with os.fdopen(tell, "wb") as answer:
                place = f"/proc/{pid}/ns/pid"
                if not _is_named(os.stat(place).st_ino):  # noqa: PTH116
                    answer.write(b"good")
                    return pid
                held.append(os.open(place, os.O_RDONLY | os.O_CLOEXEC))  # the next one must get another number
            os.waitpid(pid, 0)
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.setns(home, _CLONE_NEWPID) or libc.unshare(_CLONE_NEWPID):
                raise _error("another PID namespace")
    finally:
        for fd in (home, *held):
            os.close(fd)


def _is_named(number: int) -> bool:
    with open("/proc/net/unix", "rb") as file:  # noqa: PTH123
        return any(b"@cuda-" in line and b"-%d-" % number in line for line in file)


def furnish(job_dir: str) -> None:
    """As the first process of the new PID namespace: its own /proc, and the job's folder where every job has it."""
    libc = ctypes.CDLL(None, use_errno=True)
    _mount(libc, "proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    os.makedirs(JOB_DIR_INSIDE, exist_ok=True)
    _let_pass(os.path.dirname(JOB_DIR_INSIDE))  # noqa: PTH120
    _mount(libc, job_dir, JOB_DIR_INSIDE, None, _MS_BIND)
    _mount_pinned(libc)


def _let_pass(folder: str) -> None:
    """Through `folder` every process of the job has to come, whoever it has become; the umask here is for secrets."""
    mode = os.stat(folder).st_mode  # noqa: PTH116
    if mode & 0o111 != 0o111:
        os.chmod(folder, mode & 0o7777 | 0o111)  # noqa: PTH101


def _mount_pinned(libc: ctypes.CDLL) -> None:
    """Memory for large pinned allocations, which nobody else needs room in. Any process of the job may use it,
    whoever it has become. Without it they are the driver's."""
    os.makedirs(PINNED_INSIDE, exist_ok=True)
    flags = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
    for options in ("mode=1777,size=100%,huge=within_size", "mode=1777,size=100%"):
        try:
            _mount(libc, "torpor-pinned", PINNED_INSIDE, "tmpfs", flags, options)
            return
        except OSError:
            continue  # a kernel without huge pages


def _mount(
    libc: ctypes.CDLL, source: str | None, target: str, kind: str | None, flags: int, options: str | None = None
) -> None:
    data = os.fsencode(options) if options is not None else None
    names = [os.fsencode(name) if name is not None else None for name in (source, target, kind)]
    if libc.mount(*names, ctypes.c_ulong(flags), data):
        raise _error(f"mount on {target}")


def _error(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{what}: {os.strerror(number)}")


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends, as PID 1 is by nature."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise _error("prctl")
