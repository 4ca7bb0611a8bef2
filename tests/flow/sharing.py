"""Two processes that work on the same device memory, as data loaders and inference servers do, and check each other.

The parent makes three pieces: a small and a large one shared by IPC handle, one that it mapped itself and shared by
descriptor. In every step each process changes something in every piece, and the other finds exactly that, because its
stream waits for the event that the first recorded behind its copies; the parent also compares every byte with a copy on
the host. Prints a digest per step.
"""

from __future__ import annotations

import ctypes
import hashlib
import multiprocessing
import os
import random
import socket
from multiprocessing.connection import Connection
from typing import Any

import pace
from cuda.bindings import driver

GRAIN = 2 << 20
BETWEEN_PROCESSES = 4 | 2  # CU_EVENT_INTERPROCESS, CU_EVENT_DISABLE_TIMING
SIZES = {"small": 700, "large": 6 << 20, "mapped": 2 * GRAIN}
_POSIX = driver.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR


def check(result: tuple[Any, ...]) -> Any:
    status, *values = result
    if status != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(status.name)
    return values[0] if len(values) == 1 else values


def start_up() -> None:
    check(driver.cuInit(0))
    check(driver.cuCtxSetCurrent(check(driver.cuDevicePrimaryCtxRetain(0))))


def show(handle: Any, size: int) -> int:
    """Map a handle somewhere, readable and writable."""
    address = int(check(driver.cuMemAddressReserve(size, 0, 0, 0)))
    check(driver.cuMemMap(address, size, 0, handle, 0))
    access = driver.CUmemAccessDesc()
    access.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    access.location.id = 0
    access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    check(driver.cuMemSetAccess(address, size, [access], 1))
    return address


class Side:
    """A stream of this process, an event that it records, and the one that the other process records."""

    def __init__(self) -> None:
        self.stream = check(driver.cuStreamCreate(1))
        self.event = check(driver.cuEventCreate(BETWEEN_PROCESSES))
        self.slots = [check(driver.cuMemHostAlloc(64, 0)) for _name in SIZES]

    def handle(self) -> bytes:
        return ctypes.string_at(check(driver.cuIpcGetEventHandle(self.event)).getPtr(), 64)

    def meet(self, raw: bytes) -> None:
        handle = driver.CUipcEventHandle()
        ctypes.memmove(handle.getPtr(), raw, len(raw))
        self.other = check(driver.cuIpcOpenEventHandle(handle))

    def write(self, writes: list[tuple[int, bytes]]) -> None:
        """Begin to write up to 64 bytes to each address, and record that."""
        for slot, (address, data) in zip(self.slots, writes, strict=True):
            ctypes.memmove(slot, data, len(data))
            check(driver.cuMemcpyHtoDAsync(address, slot, len(data), self.stream))
        check(driver.cuEventRecord(self.event, self.stream))

    def read(self, address: int, size: int) -> bytes:
        """What is there after all that the other has recorded."""
        data = bytearray(size)
        check(driver.cuStreamWaitEvent(self.stream, self.other, 0))
        check(driver.cuMemcpyDtoHAsync(data, address, size, self.stream))
        check(driver.cuStreamSynchronize(self.stream))
        return bytes(data)


def child(pipe: Connection, descriptors: socket.socket) -> None:
    start_up()
    side = Side()
    side.meet(pipe.recv())
    pipe.send(side.handle())
    pieces: dict[str, int] = {}
    for _time in range(2):
        name, raw = pipe.recv()
        handle = driver.CUipcMemHandle()
        ctypes.memmove(handle.getPtr(), raw, len(raw))
        flags = driver.CUipcMem_flags.CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS
        pieces[name] = int(check(driver.cuIpcOpenMemHandle(handle, flags)))
        if int(check(driver.cuIpcOpenMemHandle(handle, flags))) != pieces[name]:
            raise RuntimeError("the same handle was opened at another address")
        check(driver.cuIpcCloseMemHandle(pieces[name]))
    _message, [fd], _flags, _address = socket.recv_fds(descriptors, 1, 1)
    imported = check(driver.cuMemImportFromShareableHandle(fd, _POSIX))
    os.close(fd)
    descriptors.close()
    pieces["mapped"] = show(imported, SIZES["mapped"])
    before = dict(pieces)
    while (order := pipe.recv()) is not None:
        for name, place, expected, _answer in order:
            if side.read(pieces[name] + place, len(expected)) != expected:
                raise RuntimeError(f"the child does not see what was written to {name}")
        side.write([(pieces[name] + place, answer) for name, place, _expected, answer in order])
        pipe.send(os.getpid())
        if pieces != before:
            raise RuntimeError("an address has changed")
    for name in ("small", "large"):
        check(driver.cuIpcCloseMemHandle(pieces[name]))


class Parent:
    """The pieces, and on the host what they must hold."""

    def __init__(self) -> None:
        self.random = random.Random(5)
        self.pieces = {name: int(check(driver.cuMemAlloc(SIZES[name]))) for name in ("small", "large")}
        wanted = driver.CUmemAllocationProp()
        wanted.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        wanted.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        wanted.location.id = 0
        wanted.requestedHandleTypes = _POSIX
        self.handle = check(driver.cuMemCreate(SIZES["mapped"], wanted, 0))
        self.pieces["mapped"] = show(self.handle, SIZES["mapped"])
        self.copies = {name: bytearray(self.random.randbytes(size)) for name, size in SIZES.items()}
        for name, address in self.pieces.items():
            check(driver.cuMemcpyHtoD(address, bytes(self.copies[name]), SIZES[name]))
        self.side = Side()

    def send(self, pipe: Connection, descriptors: socket.socket) -> None:
        pipe.send(self.side.handle())
        self.side.meet(pipe.recv())
        for name in ("small", "large"):
            handles = [check(driver.cuIpcGetMemHandle(self.pieces[name])) for _time in range(2)]
            raw = [ctypes.string_at(handle.getPtr(), 64) for handle in handles]
            if raw[0] != raw[1]:
                raise RuntimeError("a second handle of the same memory differs")
            pipe.send((name, raw[0]))
        fd = int(check(driver.cuMemExportToShareableHandle(self.handle, _POSIX, 0)))
        socket.send_fds(descriptors, [b"1"], [fd])
        os.close(fd)

    def step(self, pipe: Connection) -> str:
        order, writes = [], []
        for name, address in self.pieces.items():
            place = self.random.randrange(SIZES[name] - 64)
            mine, answer = self.random.randbytes(64), self.random.randbytes(64)
            writes.append((address + place, mine))
            order.append((name, place, mine, answer))
            self.copies[name][place : place + 64] = answer
        self.side.write(writes)
        pipe.send(order)
        pipe.recv()
        digest = hashlib.blake2b(digest_size=8)
        for name, address in self.pieces.items():
            found = self.side.read(address, SIZES[name])
            if found != self.copies[name]:
                raise RuntimeError(f"{name} is not what it should be")
            digest.update(found)
        return digest.hexdigest()


def main() -> None:
    arguments = pace.parser().parse_args()
    spawning = multiprocessing.get_context("spawn")
    pipe, its_end = spawning.Pipe()
    descriptors, its_socket = socket.socketpair()
    other = spawning.Process(target=child, args=(its_end, its_socket))
    other.start()
    its_socket.close()
    start_up()
    parent = Parent()
    parent.send(pipe, descriptors)
    descriptors.close()
    for number in pace.steps(arguments):
        os.write(1, f"step {number} {parent.step(pipe)}\n".encode())
    pipe.send(None)
    other.join()
    if other.exitcode != 0:
        raise RuntimeError(f"the child ended with {other.exitcode}")


if __name__ == "__main__":
    main()
