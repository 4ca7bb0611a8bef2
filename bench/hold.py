"""Holds memory of one kind, filled with a pattern, and checks it in every turn: the job of bench/pools.py.

    python bench/hold.py KIND GIB      KIND: alloc, default-pool, own-pool, mapped, pinned, registered
"""

from __future__ import annotations

import script

import ctypes
import mmap
import time
from typing import Any

from cuda.bindings import driver
from driver_calls import checked as check

PIECE = 256 << 20
KINDS = ("alloc", "default-pool", "own-pool", "mapped", "pinned", "registered")
KEPT: list[mmap.mmap] = []


def _located(wanted: Any) -> Any:
    wanted.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    wanted.location.id = 0
    return wanted


def _from_pool(pool: Any) -> int:
    address = int(check(driver.cuMemAllocFromPoolAsync(PIECE, pool, 0)))
    check(driver.cuStreamSynchronize(0))
    return address


def _own_pool() -> Any:
    properties = _located(driver.CUmemPoolProps())
    properties.allocType = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    return check(driver.cuMemPoolCreate(properties))


def _mapped() -> int:
    properties = _located(driver.CUmemAllocationProp())
    properties.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    handle = check(driver.cuMemCreate(PIECE, properties, 0))
    address = int(check(driver.cuMemAddressReserve(PIECE, 0, 0, 0)))
    check(driver.cuMemMap(address, PIECE, 0, handle, 0))
    access = _located(driver.CUmemAccessDesc())
    access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    check(driver.cuMemSetAccess(address, PIECE, [access], 1))
    return address


def _registered() -> int:
    """Memory of the program's own that it registers: private, as `malloc` gives it."""
    area = mmap.mmap(-1, PIECE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    address = ctypes.addressof(ctypes.c_char.from_buffer(area))
    check(driver.cuMemHostRegister(address, PIECE, 0))
    KEPT.append(area)
    return address


def pieces(kind: str, count: int) -> list[int]:
    """Device addresses of `count` pieces of that kind."""
    if kind == "alloc":
        return [int(check(driver.cuMemAlloc(PIECE))) for _ in range(count)]
    if kind == "mapped":
        return [_mapped() for _ in range(count)]
    if kind == "pinned":
        return [int(check(driver.cuMemHostAlloc(PIECE, 0))) for _ in range(count)]
    if kind == "registered":
        return [_registered() for _ in range(count)]
    pool = check(driver.cuDeviceGetDefaultMemPool(0)) if kind == "default-pool" else _own_pool()
    return [_from_pool(pool) for _ in range(count)]


def main() -> None:
    parser = script.options(__doc__, out=False)
    parser.add_argument("kind", choices=KINDS, metavar="KIND")
    parser.add_argument("gib", type=script.number(), metavar="GIB")
    chosen = parser.parse_args()
    kind, gib = chosen.kind, chosen.gib
    check(driver.cuInit(0))
    check(driver.cuCtxSetCurrent(check(driver.cuDevicePrimaryCtxRetain(0))))
    addresses = pieces(kind, int(gib * (1 << 30)) // PIECE)
    for number, address in enumerate(addresses):
        check(driver.cuMemsetD32(address, number + 1, PIECE // 4))
    word = ctypes.create_string_buffer(4)
    for turn in range(1, 100000):
        for number, address in enumerate(addresses):
            for place in (address, address + PIECE - 4):
                check(driver.cuMemcpyDtoH(word, place, 4))
                if int.from_bytes(word.raw, "little") != number + 1:
                    raise SystemExit(f"piece {number} has changed")
        print(f"turn {turn}", flush=True)
        time.sleep(0.05)


if __name__ == "__main__":
    main()
