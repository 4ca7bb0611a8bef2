"""Shared mappings of files by plain address, each call without the GIL (the `mmap` module holds it)."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os

_MADV_HUGEPAGE = 14
_MADV_POPULATE_READ = 22
_MADV_POPULATE_WRITE = 23
_MAP_FAILED = ctypes.c_void_p(-1).value

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.memcmp.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def map_shared(descriptor: int, size: int, offset: int = 0) -> int:
    """Map `size` bytes of a file from `offset` (of a page) on, for reading and writing; returns the address."""
    address = _libc.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, descriptor, offset)
    if address in (None, _MAP_FAILED):
        raise _last_error("mmap")
    assert isinstance(address, int)
    return address


def unmap(address: int, size: int) -> None:
    if _libc.munmap(address, size) != 0:
        raise _last_error("munmap")


def populate(descriptor: int, address: int, size: int) -> None:
    """Give every page of a shared mapping its memory now, in huge pages where tmpfs allows them.

    Raises OSError with ENOSPC when the file system or the host lacks the memory; without this, the first touch would
    kill the process by SIGBUS.
    """
    _libc.madvise(address, size, _MADV_HUGEPAGE)
    if _libc.madvise(address, size, _MADV_POPULATE_WRITE) == 0:
        return
    code = ctypes.get_errno()
    if code in (errno.EFAULT, errno.ENOMEM, errno.ENOSPC):
        raise OSError(errno.ENOSPC, "no memory for the file's pages")
    if code != errno.EINVAL:
        raise OSError(code, os.strerror(code))
    os.posix_fallocate(descriptor, 0, size)  # kernels before 5.14


def populate_read(address: int, size: int) -> None:
    """Map every page that the file has already; merely faster than faulting them in one by one."""
    _libc.madvise(address, size, _MADV_POPULATE_READ)


def is_zero(address: int, size: int) -> bool:
    """Whether all of so many bytes (at least one) are zero."""
    first = ctypes.c_char.from_address(address).value == b"\0"
    return first and _libc.memcmp(address, address + 1, size - 1) == 0


def view(address: int, size: int) -> memoryview:
    """The bytes at an address, writable. The view must not outlive the mapping."""
    return memoryview((ctypes.c_char * size).from_address(address)).cast("B")


def _last_error(call: str) -> OSError:
    code = ctypes.get_errno()
    return OSError(code, f"{call}: {os.strerror(code)}")
