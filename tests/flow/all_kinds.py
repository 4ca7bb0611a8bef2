"""A program that has one of everything a checkpoint must bring back, and answers questions about it on its socket.

Threads, a child, a pipe between them, shared memory by memfd, a large reservation of addresses, a file opened for
appending, standard streams, and a socket at the place where the interposer has its own. Runs with the standard library.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import socket
import sys
import threading
import time
from pathlib import Path

RESERVED, RESERVED_SIZE = 0x6000_0000_0000, 1 << 40
_NORESERVE, _FIXED_NOREPLACE = 0x4000, 0x100000


def reserve() -> None:
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE | _FIXED_NOREPLACE
    if libc.mmap(RESERVED, RESERVED_SIZE, 0, flags, -1, 0) != RESERVED:
        raise OSError("the addresses are taken")


def is_reserved() -> bool:
    return f"{RESERVED:x}-{RESERVED + RESERVED_SIZE:x} ---p" in Path("/proc/self/maps").read_text()


def main() -> None:
    folder = os.environ["TORPOR_JOB_DIR"]
    reserve()
    shared = _shared()
    record = Path(folder, "record").open("a", buffering=1)  # noqa: SIM115  open for life
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        while True:
            shared[:8] = os.read(reader, 8)
    lines: list[str] = []
    threading.Thread(target=_take_input, args=(lines,), daemon=True).start()
    steps = [0]
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(f"{folder}/ctl/{os.getpid()}")
    listener.listen(8)
    threading.Thread(
        target=_answer, args=(listener, steps, shared, child, lines, threading.get_native_id()), daemon=True
    ).start()
    while True:
        steps[0] += 1
        os.write(writer, steps[0].to_bytes(8, "little"))
        print("step", steps[0], flush=True)
        print("error", steps[0], file=sys.stderr, flush=True)
        record.write(f"{steps[0]}\n")
        time.sleep(0.005)


def _shared() -> mmap.mmap:
    fd = os.memfd_create("shared")
    os.ftruncate(fd, 4096)
    return mmap.mmap(fd, 4096)


def _take_input(lines: list[str]) -> None:
    for line in sys.stdin:
        lines.append(line.rstrip("\n"))
    lines.append("<end>")


def _answer(
    listener: socket.socket, steps: list[int], shared: mmap.mmap, child: int, lines: list[str], main_thread: int
) -> None:
    while True:
        connection, _ = listener.accept()
        with connection:
            answer = {
                "pid": os.getpid(),
                "child": child,
                "threads": sorted(int(name) for name in os.listdir("/proc/self/task")),
                "main_thread": main_thread,
                "steps": steps[0],
                "of_child": int.from_bytes(shared[:8], "little"),
                "reserved": is_reserved(),
                "input": lines,
            }
            connection.send(json.dumps(answer).encode())


if __name__ == "__main__":
    main()
