"""A program with managed memory: CPU and GPU change it in turns, and each finds what the other wrote.

Prints a digest per step, so that two runs can be compared.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import random
from typing import Any

import pace
from cuda.bindings import driver

SIZES = (700, 3 << 20, 5 * (1 << 20) + 13)


def check(result: tuple[Any, ...]) -> Any:
    status, *values = result
    if status != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(status.name)
    return values[0] if len(values) == 1 else values


class Pieces:
    """Managed allocations of several sizes."""

    def __init__(self) -> None:
        self.random = random.Random(11)
        self.addresses = []
        for size in SIZES:
            address = int(check(driver.cuMemAllocManaged(size, driver.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL)))
            ctypes.memmove(address, self.random.randbytes(size), size)
            self.addresses.append(address)

    def step(self, number: int) -> str:
        digest = hashlib.blake2b(digest_size=8)
        for address, size in zip(self.addresses, SIZES, strict=True):
            place = self.random.randrange(size - 64)
            data = self.random.randbytes(32)
            if number % 2:
                ctypes.memmove(address + place, data, 32)  # the CPU writes, the GPU reads
                found = bytearray(size)
                check(driver.cuMemcpyDtoH(found, address, size))
                digest.update(found)
            else:
                check(driver.cuMemsetD8(address + place, data[0], 64))  # the GPU writes, the CPU reads
                check(driver.cuCtxSynchronize())
                digest.update(ctypes.string_at(address, size))
            managed = check(
                driver.cuPointerGetAttribute(driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_IS_MANAGED, address)
            )
            digest.update(bytes([bool(managed)]))
        return digest.hexdigest()


def main() -> None:
    arguments = pace.parser().parse_args()
    check(driver.cuInit(0))
    check(driver.cuCtxSetCurrent(check(driver.cuDevicePrimaryCtxRetain(0))))
    pieces = Pieces()
    for number in pace.steps(arguments):
        os.write(1, f"step {number} {pieces.step(number)}\n".encode())
    for address in pieces.addresses:
        check(driver.cuMemFree(address))


main()
