"""Trees of processes, and what they share."""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import pty
import signal
import struct
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from multiprocessing import shared_memory
from pathlib import Path
from typing import Any

Check = Callable[[], Any]

LIBC = ctypes.CDLL(None, use_errno=True)

AFTERWARDS: list[Callable[[], object]] = []
"""What takes names away that the kinds made outside their folders."""


def until(condition: Callable[[], Any]) -> Any:
    while not (value := condition()):
        time.sleep(0.002)
    return value


def child(work: Callable[[], object]) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(0)
    return pid


def readers(_place: Path) -> Check:
    """Four children that sleep on one pipe and answer on another."""
    ask, answer = os.pipe(), os.pipe()

    def serve() -> None:
        while got := os.read(ask[0], 1):
            os.write(answer[1], got.upper())

    for _ in range(4):
        child(serve)

    def check() -> Any:
        os.write(ask[1], b"abcd")
        return "".join(sorted(os.read(answer[0], 1).decode() for _ in range(4)))

    return check


def ended_child(_place: Path) -> Check:
    """Children that ended and were not waited for: with a status, and by a signal."""
    by_status, by_signal = child(lambda: os._exit(7)), child(lambda: os.kill(os.getpid(), signal.SIGTERM))
    until(lambda: all(state(pid) == "Z" for pid in (by_status, by_signal)))
    found: list[int] = []

    def check() -> Any:
        if not found:
            found.extend(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in (by_status, by_signal))
        return found

    return check


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def stopped_child(_place: Path) -> Check:
    """Stopped by a signal, then told to go on."""
    reader, writer = os.pipe()
    pid = child(lambda: [os.write(writer, b".") or time.sleep(0.01) for _ in range(100_000)])
    os.read(reader, 1)
    os.kill(pid, signal.SIGSTOP)
    until(lambda: state(pid) == "T")
    os.set_blocking(reader, False)

    def check() -> Any:
        standing = state(pid)
        while True:
            try:
                os.read(reader, 100)
            except BlockingIOError:
                break
        os.kill(pid, signal.SIGCONT)
        os.set_blocking(reader, True)
        got = os.read(reader, 1).decode()
        os.kill(pid, signal.SIGSTOP)
        until(lambda: state(pid) == "T")
        os.set_blocking(reader, False)
        return standing, got

    return check


def sessions(_place: Path) -> Check:
    """Children with a process group and with a session of their own, and a child of such a one."""
    reader, writer = os.pipe()
    group = child(lambda: (os.setpgid(0, 0), os.write(writer, b"g"), time.sleep(1000)))
    session = child(lambda: (os.setsid(), child(lambda: time.sleep(1000)), os.write(writer, b"s"), time.sleep(1000)))
    os.read(reader, 1), os.read(reader, 1)
    inner = int(Path(f"/proc/{session}/task/{session}/children").read_text().split()[0])

    def check() -> Any:
        return (
            os.getpgid(group) == group,
            os.getsid(group) == os.getsid(0),
            os.getsid(session) == session,
            os.getsid(inner) == session,
        )

    return check


def orphan(_place: Path) -> Check:
    """A grandchild whose parent ended, kept in the family by a subreaper."""
    LIBC.prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    reader, writer = os.pipe()
    middle = child(lambda: os.write(writer, struct.pack("i", child(lambda: time.sleep(1000)))))
    os.waitpid(middle, 0)
    [grandchild] = struct.unpack("i", os.read(reader, 4))

    def check() -> Any:
        parent = Path(f"/proc/{grandchild}/stat").read_text().rsplit(")", 1)[1].split()[1]
        return int(parent) == os.getpid()

    return check


def shell(place: Path) -> Check:
    """A pipeline of shells and programs, writing to a file."""
    out = place / "out"
    script = f"(while :; do echo tick; sleep 0.01; done) | sed -u s/tick/tock/ >> {out}"
    subprocess.Popen(["sh", "-c", script])
    until(lambda: out.exists() and out.stat().st_size > 10)

    def check() -> Any:
        standing = out.stat().st_size
        until(lambda: out.stat().st_size > standing + 10)
        return sorted(set(out.read_text().rpartition("\n")[0].split()))

    return check


def nohup(place: Path) -> Check:
    out = place / "out"
    with out.open("wb") as file:
        subprocess.Popen(["nohup", "sh", "-c", "while :; do echo on; sleep 0.01; done"], stdout=file, stderr=file)

    def check() -> Any:
        standing = out.stat().st_size
        until(lambda: out.stat().st_size > standing + 6)
        return "on" in out.read_text()

    return check


def semaphores(_place: Path) -> Check:
    """multiprocessing's locks and shared memory, one child blocked in acquire."""
    context = multiprocessing.get_context("fork")
    gate, done = context.Semaphore(0), context.Semaphore(0)
    shared = shared_memory.SharedMemory(create=True, size=8192)
    value = context.Value("i", 5)
    array = shared.buf

    def serve() -> None:
        while True:
            gate.acquire()
            array[4096] += 1
            value.value += 10
            done.release()

    child(serve)
    time.sleep(0.05)
    AFTERWARDS.append(shared.unlink)

    def check() -> Any:
        gate.release()
        done.acquire()
        again = shared_memory.SharedMemory(shared.name)
        found = array[4096], again.buf[4096], value.value
        again.close()
        return found

    return check


def named_semaphores(_place: Path) -> Check:
    """sem_open by name: the maker's mapping is of a file whose first name is gone; a child waits in it."""
    library = ctypes.CDLL("libc.so.6", use_errno=True)
    library.sem_open.restype = ctypes.c_void_p
    names = [f"/torpor-{uuid.uuid4().hex}-{name}".encode() for name in ("gate", "done")]
    gate, done = (ctypes.c_void_p(library.sem_open(name, os.O_CREAT, 0o600, 0)) for name in names)
    AFTERWARDS.extend(lambda name=name: library.sem_unlink(name) for name in names)

    def serve() -> None:
        while True:
            library.sem_wait(gate)
            library.sem_post(done)

    child(serve)
    time.sleep(0.05)
    value = ctypes.c_int()

    def check() -> Any:
        library.sem_post(gate)
        library.sem_wait(done)
        library.sem_getvalue(gate, ctypes.byref(value))
        # By its name it is the very same semaphore.
        again = ctypes.c_void_p(library.sem_open(names[0], 0))
        library.sem_post(again)
        library.sem_wait(done)
        return value.value

    return check


def square(number: int) -> int:
    return number * number


def pool(_place: Path) -> Check:
    """multiprocessing's pool with work in the queue."""
    workers = multiprocessing.get_context("fork").Pool(3)
    pending = workers.map_async(square, range(2000), chunksize=10)
    found: list[int] = []

    def check() -> Any:
        if not found:
            found.append(sum(pending.get(100)))
        return found[0], workers.map(square, [3, 4])

    return check


def replaced(_place: Path) -> Check:
    """A child that a thread makes anew whenever it ends, as servers do with their workers."""
    reader, writer = os.pipe()

    def look_after() -> None:
        while True:
            pid = child(lambda: (os.write(writer, struct.pack("i", os.getpid())), time.sleep(1000)))
            with contextlib.suppress(ChildProcessError):  # somebody else took note of its end
                os.waitpid(pid, 0)

    threading.Thread(target=look_after, daemon=True).start()
    alive = [struct.unpack("i", os.read(reader, 4))[0]]

    def check() -> Any:
        before = alive.pop()
        os.kill(before, signal.SIGKILL)
        alive.extend(struct.unpack("i", os.read(reader, 4)))
        return alive != [before], state(alive[0]) in "RSD"

    return check


def spawned(place: Path) -> Check:
    """A child with an interpreter of its own, fed through its standard streams."""
    program = "import sys\nfor line in sys.stdin: print(line.strip()[::-1], flush=True)"
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=place, text=True
    )

    def check() -> Any:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("straight\n")
        process.stdin.flush()
        return process.stdout.readline().strip()

    return check


def own_terminal(_place: Path) -> Check:
    """A child on a terminal whose other end the parent has, as under script, tmux or pexpect."""
    pid, ours = pty.fork()
    if pid == 0:
        os.execv("/bin/sh", ["sh", "-c", "stty -echo; echo quiet; while read line; do echo got $line; done"])

    def line() -> str:
        seen = b""
        while not seen.endswith(b"\n"):
            seen += os.read(ours, 1)
        return seen.strip().decode()

    while line() != "quiet":
        pass

    def check() -> Any:
        os.write(ours, b"word\n")
        return line()

    return check


def seccomp(_place: Path) -> Check:
    """A child that may not make folders any more."""
    ask, answer = os.pipe(), os.pipe()

    def serve() -> None:
        # mkdir (83) gives EPERM, all else is allowed.
        program = struct.pack("HBBI", 0x20, 0, 0, 0) + struct.pack("HBBI", 0x15, 0, 1, 83)
        program += struct.pack("HBBI", 0x06, 0, 0, 0x00050001) + struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000)
        buffer = ctypes.create_string_buffer(program)
        filter_ = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 4, ctypes.addressof(buffer)))
        LIBC.prctl(38, 1, 0, 0, 0)
        LIBC.prctl(22, 2, filter_, 0, 0)
        while os.read(ask[0], 1):
            result = LIBC.syscall(83, b"/nonexistent/folder", 0)
            os.write(answer[1], f"{result} {ctypes.get_errno()}".encode())

    child(serve)

    def check() -> Any:
        os.write(ask[1], b"x")
        return os.read(answer[0], 100).decode()

    return check


KINDS = {
    one.__name__: one
    for one in (
        readers,
        ended_child,
        stopped_child,
        sessions,
        orphan,
        shell,
        nohup,
        semaphores,
        named_semaphores,
        pool,
        replaced,
        spawned,
        own_terminal,
        seccomp,
    )
}
