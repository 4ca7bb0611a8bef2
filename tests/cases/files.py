"""Files, memory and queues that a process holds, each with what is left of it to find afterwards."""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

Check = Callable[[], Any]

LIBC = ctypes.CDLL(None, use_errno=True)


def deleted_open(place: Path) -> Check:
    file = (place / "gone").open("w+b")
    file.write(b"left behind")
    file.flush()
    (place / "gone").unlink()

    def check() -> Any:
        file.write(b"+")
        file.flush()
        return os.pread(file.fileno(), 100, 0).decode(), file.tell(), (place / "gone").exists()

    return check


def deleted_mapped(place: Path) -> Check:
    path = place / "gone"
    path.write_bytes(b"m" * 8192)
    with path.open("r+b") as file:
        shared = mmap.mmap(file.fileno(), 8192)
    path.unlink()
    count = [0]

    def check() -> Any:
        count[0] += 1
        shared[4096] = count[0]
        return shared[0], shared[4096], shared[8191]

    return check


def unnamed(place: Path) -> Check:
    fd = os.open(place, os.O_TMPFILE | os.O_RDWR, 0o600)
    os.write(fd, b"never had a name")
    return lambda: os.pread(fd, 100, 0).decode()


def memfd(_place: Path) -> Check:
    fd = os.memfd_create("kind", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, 8192)
    shared = mmap.mmap(fd, 8192)
    shared[5000:5004] = b"here"
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)

    def check() -> Any:
        found = os.pread(fd, 4, 5000).decode()
        os.pwrite(fd, found.upper().encode(), 5000)
        return shared[5000:5004].decode(), fcntl.fcntl(fd, fcntl.F_GET_SEALS)

    return check


def memfd_shared(_place: Path) -> Check:
    """Between two processes, with huge content and holes."""
    fd = os.memfd_create("between")
    os.ftruncate(fd, 64 << 20)
    shared = mmap.mmap(fd, 64 << 20)
    child = os.fork()
    if child == 0:
        while True:
            while shared[0] == 0:
                os.sched_yield()
                ctypes.CDLL(None).usleep(1000)
            shared[32 << 20] = shared[0]
            shared[0] = 0
    count = [0]

    def check() -> Any:
        count[0] += 1
        shared[0] = count[0]
        while shared[0]:
            LIBC.usleep(1000)
        return shared[32 << 20], os.pread(fd, 1, 32 << 20)[0]

    return check


def anonymous_shared(_place: Path) -> Check:
    """MAP_SHARED | MAP_ANONYMOUS across a fork: what multiprocessing.Value is made of."""
    shared = mmap.mmap(-1, 4096)
    ask, answer = os.pipe(), os.pipe()
    if os.fork() == 0:
        while os.read(ask[0], 1):
            shared[10] += 1
            os.write(answer[1], b"x")
        os._exit(0)

    def check() -> Any:
        os.write(ask[1], b"x")
        os.read(answer[0], 1)
        return shared[10]

    return check


def pipe_full(_place: Path) -> Check:
    reader, writer = os.pipe()
    size = fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 1 << 18)
    os.write(writer, bytes(range(256)) * 512)

    def check() -> Any:
        got = os.read(reader, 1 << 17)
        os.write(writer, got)
        return len(got), got[:3].hex(), fcntl.fcntl(writer, fcntl.F_GETPIPE_SZ) == size

    return check


def fifo(place: Path) -> Check:
    path = place / "fifo"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(path, os.O_WRONLY)
    os.write(writer, b"in between")

    def check() -> Any:
        got = os.read(reader, 100)
        os.write(writer, got)
        return got.decode()

    return check


def locks(place: Path) -> Check:
    """Of the three kinds; held as seen by another process."""
    files = {name: (place / name).open("w+b") for name in ("flock", "posix", "description")}
    fcntl.flock(files["flock"], fcntl.LOCK_EX)
    fcntl.lockf(files["posix"], fcntl.LOCK_EX, 10, 5)
    whole = struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0)
    fcntl.fcntl(files["description"], fcntl.F_OFD_SETLK, whole)

    def held(name: str) -> bool:
        with (place / name).open("r+b") as file:
            try:
                if name == "flock":
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                elif name == "posix":
                    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 5)
                else:
                    fcntl.fcntl(file, fcntl.F_OFD_SETLK, whole)
            except OSError:
                return True
        return False

    def check() -> Any:
        reader, writer = os.pipe()
        if os.fork() == 0:
            os.write(writer, repr([held(name) for name in files]).encode())
            os._exit(0)
        os.close(writer)
        found = os.read(reader, 100).decode()
        os.close(reader)
        os.wait()
        return found

    return check


def lease(place: Path) -> Check:
    path = place / "leased"
    path.write_bytes(b"x")
    fd = os.open(path, os.O_RDONLY)
    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    return lambda: fcntl.fcntl(fd, fcntl.F_GETLEASE)


def places(place: Path) -> Check:
    """A folder, a path-only descriptor, a file from /proc, devices, and an append-only log."""
    (place / "file").write_text("content")
    folder = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    path_only = os.open(place / "file", os.O_PATH)
    status = open("/proc/self/comm")  # noqa: PTH123, SIM115  open for life
    null, zero, random = (os.open(f"/dev/{name}", os.O_RDWR) for name in ("null", "zero", "urandom"))
    log = (place / "log").open("a")

    def check() -> Any:
        log.write("line\n")
        log.flush()
        status.seek(0)
        found = os.open(f"/proc/self/fd/{path_only}", os.O_RDONLY)
        content = os.read(found, 100).decode()
        os.close(found)
        return (
            sorted(os.listdir(folder)),
            content,
            status.read().strip(),
            os.read(null, 1).hex(),
            os.read(zero, 2).hex(),
            len(os.read(random, 3)),
            (place / "log").stat().st_size,
        )

    return check


def private_mapping(place: Path) -> Check:
    """A file mapped privately and changed in memory: both sides stay as they are."""
    path = place / "file"
    path.write_bytes(b"a" * 8192)
    with path.open("r+b") as file:
        private = mmap.mmap(file.fileno(), 8192, flags=mmap.MAP_PRIVATE)
    private[0:3] = b"own"
    return lambda: (private[:4].decode(), private[5000], path.read_bytes()[:3].decode())


def protections(_place: Path) -> Check:
    """Guard pages, locked memory, advice, a growing stack of its own."""
    area = mmap.mmap(-1, 16 * 4096)
    address = ctypes.addressof(ctypes.c_char.from_buffer(area))
    LIBC.mprotect(ctypes.c_void_p(address + 4096), ctypes.c_size_t(4096), 0)
    LIBC.mlock(ctypes.c_void_p(address + 8192), ctypes.c_size_t(4096))
    LIBC.madvise(ctypes.c_void_p(address + 12288), ctypes.c_size_t(4096), 10)  # MADV_DONTFORK
    area[0] = 1

    def check() -> Any:
        rights = [line.split()[1] for line in Path("/proc/self/maps").read_text().splitlines() if _in(line, address)]
        locked = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmLck"))
        return area[0], sorted(set(rights)), locked.split()[1:]

    return check


def _in(line: str, address: int) -> bool:
    first, last = (int(part, 16) for part in line.split()[0].split("-"))
    return first < address + 16 * 4096 and address < last


KINDS = {
    one.__name__: one
    for one in (
        deleted_open,
        deleted_mapped,
        unnamed,
        memfd,
        memfd_shared,
        anonymous_shared,
        pipe_full,
        fifo,
        locks,
        lease,
        places,
        private_mapping,
        protections,
    )
}
