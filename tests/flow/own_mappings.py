"""A program that maps device memory itself, in the ways that allocators of frameworks do, and prints what it finds.

One handle at several addresses, gaps between, memory that is mapped nowhere, memory unmapped and mapped again at the
same address (a sleeping inference server), a row of pieces (expandable segments), read-only views. Every step writes
through one mapping, reads through another and prints a digest; handles and addresses must stay what they were.
"""

from __future__ import annotations

import hashlib
import os
import random
from typing import Any

import pace
from cuda.bindings import driver

GRAIN = 2 << 20
_POSIX = driver.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
_NONE = driver.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_NONE
_WRITE = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
_READ = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READ


def check(result: tuple[Any, ...]) -> Any:
    status, *values = result
    if status != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(status.name)
    return values[0] if len(values) == 1 else values


def properties(kind: Any = _NONE) -> driver.CUmemAllocationProp:
    wanted = driver.CUmemAllocationProp()
    wanted.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    wanted.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    wanted.location.id = 0
    wanted.requestedHandleTypes = kind
    return wanted


def allow(address: int, size: int, flags: Any = _WRITE) -> None:
    access = driver.CUmemAccessDesc()
    access.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    access.location.id = 0
    access.flags = flags
    check(driver.cuMemSetAccess(address, size, [access], 1))


def write(address: int, data: bytes) -> None:
    check(driver.cuMemcpyHtoD(address, data, len(data)))


def read(address: int, size: int) -> bytes:
    data = bytearray(size)
    check(driver.cuMemcpyDtoH(data, address, size))
    return bytes(data)


class Memory:
    """The mappings; addresses are offsets into one reservation, so that what is printed does not depend on it."""

    def __init__(self) -> None:
        self.random = random.Random(3)
        self.base = int(check(driver.cuMemAddressReserve(64 * GRAIN, 0, 0, 0)))
        self.whole = check(driver.cuMemCreate(4 * GRAIN, properties(_POSIX), 0))
        self.view(self.whole, 0, 4)  # all of it
        self.view(self.whole, 5, 4)  # again, behind a gap
        self.view(self.whole, 12, 4, flags=_READ)
        self.row = [check(driver.cuMemCreate(GRAIN, properties(), 0)) for _ in range(4)]
        for number, handle in enumerate(self.row):
            self.view(handle, 20 + number, 1)
        self.unmapped = check(driver.cuMemCreate(2 * GRAIN, properties(_POSIX), 0))
        self.view(self.unmapped, 30, 2)
        write(self.at(30), b"seen later" * 1000)
        check(driver.cuMemUnmap(self.at(30), 2 * GRAIN))
        self.orphan = check(driver.cuMemCreate(GRAIN, properties(), 0))
        self.view(self.orphan, 34, 1)
        check(driver.cuMemRelease(self.orphan))  # the mapping keeps it alive
        self.descriptor = int(check(driver.cuMemExportToShareableHandle(self.whole, _POSIX, 0)))  # kept open
        self.handles = [int(one) for one in (self.whole, *self.row, self.unmapped)]

    def at(self, grains: int) -> int:
        return self.base + grains * GRAIN

    def view(self, handle: Any, where: int, grains: int, flags: Any = _WRITE) -> None:
        check(driver.cuMemMap(self.at(where), grains * GRAIN, 0, handle, 0))
        allow(self.at(where), grains * GRAIN, flags)

    def step(self, number: int) -> str:
        place = self.random.randrange(4 * GRAIN - 64)
        write(self.at(5) + place, self.random.randbytes(64))
        write(self.at(20 + number % len(self.row)) + place % (GRAIN - 64), self.random.randbytes(64))
        write(self.at(34) + place % (GRAIN - 64), self.random.randbytes(64))
        digest = hashlib.blake2b(digest_size=8)
        digest.update(read(self.at(0), 4 * GRAIN))
        if read(self.at(12), 4 * GRAIN) != read(self.at(0), 4 * GRAIN):
            raise RuntimeError("two views of one memory differ")
        digest.update(read(self.at(20), len(self.row) * GRAIN))
        digest.update(read(self.at(34), GRAIN))
        if number % 10 == 5:
            digest.update(self.look_at_unmapped())
        if number % 10 == 6:
            self.look_through_descriptor()
        if number % 10 == 7:
            self.sleep_and_wake()
        self.check_handles()
        return digest.hexdigest()

    def look_at_unmapped(self) -> bytes:
        self.view(self.unmapped, 30, 2)
        found = read(self.at(30), 10000)
        write(self.at(31), found[::-1])
        found += read(self.at(31), 10000)
        check(driver.cuMemUnmap(self.at(30), 2 * GRAIN))
        return found

    def look_through_descriptor(self) -> None:
        """What another process would see that got the descriptor."""
        imported = check(driver.cuMemImportFromShareableHandle(self.descriptor, _POSIX))
        self.view(imported, 40, 4)
        if read(self.at(40), 4 * GRAIN) != read(self.at(0), 4 * GRAIN):
            raise RuntimeError("the descriptor leads to other memory")
        check(driver.cuMemUnmap(self.at(40), 4 * GRAIN))
        check(driver.cuMemRelease(imported))

    def sleep_and_wake(self) -> None:
        """Give one piece of the row up, and make it anew at the same address."""
        check(driver.cuMemUnmap(self.at(23), GRAIN))
        check(driver.cuMemRelease(self.row[3]))
        self.row[3] = check(driver.cuMemCreate(GRAIN, properties(), 0))
        self.view(self.row[3], 23, 1)
        check(driver.cuMemsetD8(self.at(23), 1, GRAIN))
        self.handles[4] = int(self.row[3])

    def check_handles(self) -> None:
        for handle, kind in ((self.whole, _POSIX), (self.row[0], _NONE)):
            found = check(driver.cuMemGetAllocationPropertiesFromHandle(handle))
            if found.requestedHandleTypes != kind or found.location.id != 0:
                raise RuntimeError("the properties of a handle have changed")
        retained = check(driver.cuMemRetainAllocationHandle(self.at(6)))
        if int(retained) != self.handles[0]:
            raise RuntimeError("the handle of a mapping has changed")
        check(driver.cuMemRelease(retained))
        os.close(int(check(driver.cuMemExportToShareableHandle(self.whole, _POSIX, 0))))


def main() -> None:
    arguments = pace.parser().parse_args()
    check(driver.cuInit(0))
    check(driver.cuCtxSetCurrent(check(driver.cuDevicePrimaryCtxRetain(0))))
    memory = Memory()
    for number in pace.steps(arguments):
        os.write(1, f"step {number} {memory.step(number)}\n".encode())


main()
