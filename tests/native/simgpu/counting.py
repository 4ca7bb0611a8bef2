"""A job for CRIU: counts in device memory, and shows where it is in a file of the folder given as argument.

The file is named by the PID namespace, so that copies of the process do not share one, and holds the pid, the count
as read from each kind of device memory, and the UUID of the device.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import time
from pathlib import Path

cuda = ctypes.CDLL("libcuda.so.1")
BLOCK = 2 << 20


def call(name: str, *args: object) -> None:
    status = getattr(cuda, name)(*(ctypes.c_uint64(a) if isinstance(a, int) else a for a in args))
    if status != 0:
        sys.exit(f"{name} returned {status}")


def number(name: str, *args: object) -> int:
    value = ctypes.c_uint64()
    call(name, ctypes.byref(value), *args)
    return value.value


def main() -> None:
    folder = Path(sys.argv[1])
    call("cuInit", 0)
    call("cuCtxSetCurrent", number("cuDevicePrimaryCtxRetain", 0))
    linear = number("cuMemAlloc_v2", 4 * BLOCK)
    mapped = number("cuMemAddressReserve", 1 << 40, 0, 0x600000000000, 0)
    properties = ctypes.create_string_buffer(struct.pack("<iiiiQQ", 1, 1, 1, 0, 0, 0))
    call("cuMemMap", mapped, BLOCK, 0, number("cuMemCreate", BLOCK, properties, 0), 0)
    call("cuMemSetAccess", mapped, BLOCK, ctypes.create_string_buffer(struct.pack("<iii", 1, 0, 3)), 1)
    stream, event = number("cuStreamCreate", 1), number("cuEventCreate", 0)
    pinned = number("cuMemHostAlloc", 4096, 0)
    word = ctypes.c_uint64.from_address(pinned)
    uuid = ctypes.create_string_buffer(16)
    while True:
        counts = []
        for address in (linear + 3 * BLOCK, mapped + 64):
            call("cuMemcpyDtoHAsync_v2", ctypes.c_void_p(pinned), address, 8, stream)
            call("cuStreamSynchronize", stream)
            counts.append(word.value)
            word.value += 1
            call("cuMemcpyHtoDAsync_v2", address, ctypes.c_void_p(pinned), 8, stream)
            call("cuEventRecord", event, stream)
            call("cuEventSynchronize", event)
        call("cuDeviceGetUuid_v2", uuid, 0)
        shown = folder / f"{Path('/proc/self/ns/pid').stat().st_ino}.state"
        fresh = shown.with_suffix(".new")
        fresh.write_text(f"{os.getpid()} {counts[0]} {counts[1]} {uuid.raw.hex()}\n")
        fresh.rename(shown)
        time.sleep(0.002)


if __name__ == "__main__":
    main()
