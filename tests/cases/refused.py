"""What cannot be saved, each with how to find out that it still works after it was refused."""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import socket
import struct
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

Check = Callable[[], Any]

LIBC = ctypes.CDLL(None, use_errno=True)


def checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def io_uring(_place: Path) -> Check:
    """A ring with a time limit in flight."""
    parameters = ctypes.create_string_buffer(120)
    fd = checked(LIBC.syscall(425, 8, parameters))
    offsets = struct.unpack_from("10I", parameters.raw, 40)
    entries = mmap.mmap(fd, 8 * 64, offset=0x10000000)
    ring = mmap.mmap(fd, 4096, offset=0)
    span = ctypes.create_string_buffer(struct.pack("qq", 1000, 0))
    entries[:64] = struct.pack("BBHiQQIIQ24x", 11, 0, 0, -1, 0, ctypes.addressof(span), 1, 0, 42)
    array, tail = offsets[6], offsets[1]
    ring[array : array + 4] = struct.pack("I", 0)
    ring[tail : tail + 4] = struct.pack("I", 1)
    submitted = checked(LIBC.syscall(426, fd, 1, 0, 0, None, 0))
    return lambda: submitted


def io_uring_mapped(place: Path) -> Check:
    """A ring whose descriptor is closed, with its memory still mapped."""
    parameters = ctypes.create_string_buffer(120)
    fd = checked(LIBC.syscall(425, 8, parameters))
    ring = mmap.mmap(fd, 4096, offset=0)
    os.close(fd)
    del place
    return lambda: len(ring)


def perf_event(_place: Path) -> Check:
    attr = (ctypes.c_uint32 * 32)(1, 128, 9)
    fd = checked(LIBC.syscall(298, attr, 0, -1, -1, 0))
    return lambda: len(os.read(fd, 8))


def userfaultfd(_place: Path) -> Check:
    fd = checked(LIBC.syscall(323, os.O_NONBLOCK))
    return lambda: os.get_blocking(fd)


def semaphore_eventfd(_place: Path) -> Check:
    fd = os.eventfd(3, os.EFD_SEMAPHORE)
    return lambda: (os.eventfd_read(fd), os.eventfd_read(fd))


def packets(_place: Path) -> Check:
    """A pipe in packet mode keeps the bounds of what was written."""
    reader, writer = os.pipe2(os.O_DIRECT)
    os.write(writer, b"one")
    os.write(writer, b"three")
    return lambda: (os.read(reader, 100).decode(), os.read(reader, 100).decode())


def system_v(_place: Path) -> Check:
    LIBC.shmat.restype = ctypes.c_void_p
    number = checked(LIBC.shmget(0, 4096, 0o1600))
    address = LIBC.shmat(number, None, 0)
    LIBC.shmctl(number, 0, None)
    ctypes.memset(address, 7, 1)
    return lambda: ctypes.string_at(address, 1)[0]


def renamed_link(place: Path) -> Check:
    """Deleted under the name by which it was opened, alive under another."""
    file = (place / "old").open("w+")
    os.link(place / "old", place / "new")
    (place / "old").unlink()
    file.write("text")
    file.flush()
    return lambda: ((place / "new").read_text(), file.tell())


def huge_deleted(place: Path) -> Check:
    file = (place / "gone").open("w+b")
    os.posix_fallocate(file.fileno(), 0, 1153437696)
    (place / "gone").unlink()
    return lambda: os.fstat(file.fileno()).st_size


def message_queue(_place: Path) -> Check:
    """A POSIX message queue."""
    name = f"/torpor-test-{uuid.uuid4().hex}".encode()
    fd = checked(LIBC.mq_open(name, os.O_CREAT | os.O_RDWR, 0o600, None))
    LIBC.mq_unlink(name)
    checked(LIBC.mq_send(fd, b"note", 4, 0))
    buffer = ctypes.create_string_buffer(8192)
    return lambda: (LIBC.mq_receive(fd, buffer, 8192, None), buffer.value.decode())


def waiting_connection(_place: Path) -> Check:
    """Made, and not accepted yet."""
    listener = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(listener.getsockname())
    client.send(b"knock")

    def check() -> Any:
        accepted, _ = listener.accept()
        return accepted.recv(10).decode()

    return check


def vsock(_place: Path) -> Check:
    one = socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)
    return lambda: one.family.name


def traced(_place: Path) -> Check:
    """A child under a debugger, which is the parent."""
    pid = os.fork()
    if pid == 0:
        LIBC.ptrace(0, 0, 0, 0)
        os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(0)
    os.waitpid(pid, os.WUNTRACED)
    return lambda: os.waitstatus_to_exitcode(_let_go(pid))


def _let_go(pid: int) -> int:
    LIBC.ptrace(7, pid, 0, 0)
    return os.waitpid(pid, 0)[1]


def main_thread_ended(place: Path) -> Check:
    """A child whose first thread has ended, and which another thread keeps alive."""
    ready, answer = os.pipe(), os.pipe()
    program = (
        "import ctypes, os, sys, threading\n"
        "def serve():\n"
        "    os.write(int(sys.argv[1]), b'x')\n"
        "    while got := os.read(int(sys.argv[2]), 1): os.write(int(sys.argv[3]), got.upper())\n"
        "threading.Thread(target=serve).start()\n"
        "ctypes.CDLL(None).syscall(60, 0)\n"
    )
    ask = os.pipe()
    numbers = (ready[1], ask[0], answer[1])
    child = subprocess.Popen([sys.executable, "-c", program, *map(str, numbers)], pass_fds=numbers, cwd=place)
    os.read(ready[0], 1)
    while Path(f"/proc/{child.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
        time.sleep(0.001)

    def check() -> Any:
        os.write(ask[1], b"a")
        return os.read(answer[0], 1).decode()

    return check


def _apart(*flags: str) -> Callable[[Path], Check]:
    def kind(_place: Path) -> Check:
        child = subprocess.Popen(["unshare", *flags, "sh", "-c", "echo up; read line; echo $line"], **_PIPES)
        assert child.stdout is not None
        assert child.stdout.readline() == b"up\n"

        def check() -> Any:
            out, _ = child.communicate(b"still here\n", timeout=100)
            return out.decode(), child.returncode

        return check

    return kind


_PIPES: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}


def device(_place: Path) -> Check:
    """Another device than memory and terminals."""
    fd = os.open("/dev/loop-control" if Path("/dev/loop-control").exists() else "/dev/fuse", os.O_RDWR)
    return lambda: os.fstat(fd).st_size


NEEDED = {
    "io_uring": "has io_uring open",
    "io_uring_mapped": r"has memory of \[io_uring\] mapped",
    "perf_event": "has perf_event open",
    "userfaultfd": "has userfaultfd open",
    "semaphore_eventfd": "has an eventfd that counts as a semaphore",
    "packets": "has a pipe in packet mode",
    "system_v": "uses System V shared memory",
    "renamed_link": "old open, which was deleted under that name and lives on under another",
    "huge_deleted": "has the deleted file .*gone of",
    "message_queue": "such as a POSIX message queue",
    "waiting_connection": "has a TCP connection to 127.0.0.1:.* that waits to be accepted",
    "vsock": "has a socket of the kind",
    "traced": "is traced by process .*python",
    "main_thread_ended": "runs on without its first thread",
    "device": "has the device /dev/",
    "namespace_net": r"has made a namespace of its own \(net\)",
    "namespace_uts": r"has made a namespace of its own \(uts\)",
    "namespace_ipc": r"has made a namespace of its own \(ipc\)",
    "namespace_mount": r"has made a namespace of its own \(mnt\)",
    "namespace_user": r"has made a namespace of its own \(user\)",
    "namespace_pid": r"has made a namespace of its own \(pid\)",
}
"""Kind → what the refusal says of it."""

KINDS: dict[str, Callable[[Path], Check]] = {
    **{name: kind for name in NEEDED if (kind := globals().get(name)) is not None},
    "namespace_net": _apart("--net"),
    "namespace_uts": _apart("--uts"),
    "namespace_ipc": _apart("--ipc"),
    "namespace_mount": _apart("--mount"),
    "namespace_user": _apart("--user"),
    "namespace_pid": _apart("--pid", "--fork"),
}
