"""A program with something that cannot be saved; it waits for a file, checks that all works still, and says so."""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from cuda.bindings import driver

SIZE = 2 << 20


def check(result: tuple[Any, ...]) -> Any:
    status, *values = result
    if status != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(status.name)
    return values[0] if len(values) == 1 else values


def managed() -> Any:
    address = check(driver.cuMemAllocManaged(SIZE, 1))
    ctypes.memset(int(address), 7, SIZE)
    return lambda: ctypes.string_at(int(address), SIZE) == b"\7" * SIZE


KIND = driver.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR


def give_away(socket_number: int) -> None:
    """Make memory and send its descriptor: what a process that Torpor knows nothing of does."""
    check(driver.cuInit(0))
    properties = driver.CUmemAllocationProp()
    properties.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    properties.requestedHandleTypes = KIND
    properties.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    made = check(driver.cuMemCreate(SIZE, properties, 0))
    descriptor = int(check(driver.cuMemExportToShareableHandle(made, KIND, 0)))
    socket.send_fds(socket.socket(fileno=socket_number), [b"1"], [descriptor])


def imported() -> Any:
    """Memory of a process that runs without Torpor, mapped here."""
    ours, its = socket.socketpair()
    library = os.environ["TORPOR_REAL_LIBCUDA"]
    plain = {**os.environ, "LD_PRELOAD": "", "LD_LIBRARY_PATH": str(Path(library).parent)}
    argv = [sys.executable, __file__, "give_away", str(its.fileno())]
    subprocess.run(argv, env=plain, pass_fds=[its.fileno()], check=True)
    _message, [descriptor], _flags, _address = socket.recv_fds(ours, 1, 1)
    ours.close()
    its.close()
    handle = check(driver.cuMemImportFromShareableHandle(descriptor, KIND))
    os.close(descriptor)
    address = check(driver.cuMemAddressReserve(SIZE, 0, 0, 0))
    check(driver.cuMemMap(address, SIZE, 0, handle, 0))
    access = driver.CUmemAccessDesc()
    access.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    check(driver.cuMemSetAccess(address, SIZE, [access], 1))
    check(driver.cuMemsetD8(address, 9, SIZE))

    def right() -> bool:
        data = bytearray(SIZE)
        check(driver.cuMemcpyDtoH(data, address, SIZE))
        return bytes(data) == b"\x09" * SIZE

    return right


def stray() -> Any:
    """A daemon: a child of a child that ended."""
    subprocess.run(["sh", "-c", "sleep 1000 & "], check=True)
    return lambda: True


def busy() -> Any:
    """A stream that waits until the host writes a word."""
    word = int(check(driver.cuMemHostAlloc(4096, 2)))
    ctypes.memset(word, 0, 4)
    stream = check(driver.cuStreamCreate(1))
    check(driver.cuStreamWaitValue32(stream, driver.CUdeviceptr(word), 1, 0))

    def right() -> bool:
        ctypes.memset(word, 1, 1)
        check(driver.cuStreamSynchronize(stream))
        return True

    return right


def main() -> None:
    check(driver.cuInit(0))
    check(driver.cuCtxSetCurrent(check(driver.cuDevicePrimaryCtxRetain(check(driver.cuDeviceGet(0))))))
    ask = {"managed": managed, "imported": imported, "stray": stray, "busy": busy}[sys.argv[1]]()
    print("ready", flush=True)
    while not Path(sys.argv[2]).exists():
        time.sleep(0.01)
    print("right" if ask() else "wrong", flush=True)


if sys.argv[1] == "give_away":
    give_away(int(sys.argv[2]))
else:
    main()
