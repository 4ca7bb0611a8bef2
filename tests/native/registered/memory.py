"""Memory of a program's own that it registers, for the tests of that: made by the program, looked at in its maps."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.native.arena.harness import HELLO, MIB, Program, environment
from tests.native.compiled import compiled

PLACE = "/dev/shm"  # a file system of its own, as the job's is
PAGE = 4096
SIZE = 72 * MIB

PREPARE = """
import mmap, os, threading
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
def area(size, flags=0x22, at=None):
    found = libc.mmap(ctypes.c_void_p(at), ctypes.c_size_t(size), 3, flags, -1, ctypes.c_long(0))
    assert found != ctypes.c_void_p(-1).value
    return found
def at(address):
    return ctypes.c_void_p(address)
def fill(address, size, byte):
    ctypes.memset(address, byte, size)
def bytes_of(address, size):
    return (ctypes.c_char * size).from_address(address).raw
def is_full_of(address, size, byte):
    return bytes_of(address, size) == bytes([byte]) * size
def mapped(address):
    for line in open('/proc/self/maps'):
        start, stop = (int(part, 16) for part in line.split()[0].split('-'))
        if start <= address < stop:
            return line
    return ''
"""


def prepared(running: Program) -> Program:
    running.execute(PREPARE)
    return running


@contextmanager
def with_library(folder: Path, source: str) -> Iterator[tuple[Program, Path]]:
    """A prepared program that has not begun to use the driver, and a library of this folder that it loads first."""
    library = compiled(f"tests/native/registered/{source}", "-shared", "-fPIC")
    preloaded = f"{library}:{environment(folder)['LD_PRELOAD']}"
    running = Program(folder, environment, TORPOR_PINNED=PLACE, LD_PRELOAD=preloaded)
    try:
        yield prepared(running), library
    finally:
        running.end()


def area(running: Program, size: int = SIZE) -> int:
    return int(running.value(f"area({size})"))


def register(running: Program, address: int, size: int = SIZE, flags: int = 0) -> int:
    return int(running.call("cuMemHostRegister_v2", address, size, flags)[0])


def in_a_file(running: Program, address: int) -> bool:
    line = str(running.value(f"mapped({address})"))
    assert line, f"nothing is mapped at {address:#x}"
    return re.search(r" rw-s .* /dev/shm/#\d+ \(deleted\)$", line) is not None


def is_private(running: Program, address: int) -> bool:
    return str(running.value(f"mapped({address})")).split()[1:] == ["rw-p", "00000000", "00:00", "0"]


def count(running: Program) -> dict[str, int]:
    with running.control() as control:
        found: dict[str, int] = control.json(HELLO)["pinned"]
        return found
