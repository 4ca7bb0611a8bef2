"""A program whose memory is stream-ordered: default and own pools, thresholds, frees on other streams, graphs' memory.

Prints a digest per step, then the pools' attributes, then whether a thousand more pairs of allocations left the memory
in use as it was. Two runs print the same.
"""

from __future__ import annotations

import hashlib
import os
import random
from typing import Any

import pace
from cuda.bindings import driver

MIB = 1 << 20
SIZES = (4096, 700_000, 3 * MIB, 9 * MIB)
_ATTRIBUTE = driver.CUmemPool_attribute
THRESHOLD = _ATTRIBUTE.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD


def check(result: tuple[Any, ...]) -> Any:
    status, *values = result
    if status != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(status.name)
    return values[0] if len(values) == 1 else values


def located(wanted: Any) -> Any:
    wanted.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    wanted.location.id = 0
    return wanted


class Pools:
    """Two pools, two streams, and a graph that allocates, fills, copies out and frees."""

    def __init__(self) -> None:
        self.random = random.Random(17)
        self.streams = [check(driver.cuStreamCreate(1)) for _ in range(2)]
        self.default = check(driver.cuDeviceGetDefaultMemPool(0))
        properties = located(driver.CUmemPoolProps())
        properties.allocType = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        self.own = check(driver.cuMemPoolCreate(properties))
        check(driver.cuMemPoolSetAttribute(self.own, THRESHOLD, driver.cuuint64_t(64 * MIB)))
        self.live: list[tuple[int, int]] = []
        for pool in (None, self.own):
            for size in SIZES:
                self.live.append((self.allocate(pool, size, self.streams[0]), size))
                self.write(*self.live[-1])
        self.kept = int(check(driver.cuMemAlloc(4096)))
        self.graph = self.make_graph()

    def allocate(self, pool: Any, size: int, stream: Any) -> int:
        if pool is None:
            return int(check(driver.cuMemAllocAsync(size, stream)))
        return int(check(driver.cuMemAllocFromPoolAsync(size, pool, stream)))

    def write(self, address: int, size: int) -> None:
        check(driver.cuMemcpyHtoDAsync(address, self.random.randbytes(size), size, self.streams[0]))
        check(driver.cuStreamSynchronize(self.streams[0]))

    def make_graph(self) -> Any:
        graph = check(driver.cuGraphCreate(0))
        params = driver.CUDA_MEM_ALLOC_NODE_PARAMS()
        located_pool = located(driver.CUmemPoolProps())
        located_pool.allocType = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        params.poolProps = located_pool
        params.bytesize = 2 * MIB
        node = check(driver.cuGraphAddMemAllocNode(graph, [], 0, params))
        context = check(driver.cuCtxGetCurrent())
        fill = driver.CUDA_MEMSET_NODE_PARAMS()
        fill.dst, fill.elementSize, fill.value, fill.width, fill.height = params.dptr, 1, 5, 4096, 1
        filled = check(driver.cuGraphAddMemsetNode(graph, [node], 1, fill, context))
        copy = driver.CUDA_MEMCPY3D()
        copy.srcMemoryType = copy.dstMemoryType = driver.CUmemorytype.CU_MEMORYTYPE_DEVICE
        copy.srcDevice, copy.dstDevice = params.dptr, self.kept
        copy.WidthInBytes, copy.Height, copy.Depth = 4096, 1, 1
        copied = check(driver.cuGraphAddMemcpyNode(graph, [filled], 1, copy, context))
        check(driver.cuGraphAddMemFreeNode(graph, [copied], 1, params.dptr))
        return check(driver.cuGraphInstantiate(graph, 0))

    def step(self, number: int) -> str:
        """Replace one allocation: freed on the other stream after an event; check all."""
        at = number % len(self.live)
        address, size = self.live[at]
        pool = None if at < len(SIZES) else self.own
        event = check(driver.cuEventCreate(2))
        check(driver.cuEventRecord(event, self.streams[0]))
        check(driver.cuStreamWaitEvent(self.streams[1], event, 0))
        check(driver.cuMemFreeAsync(address, self.streams[1]))
        check(driver.cuStreamSynchronize(self.streams[1]))
        check(driver.cuEventDestroy(event))
        self.live[at] = (self.allocate(pool, size, self.streams[0]), size)
        self.write(*self.live[at])
        check(driver.cuMemsetD8(self.kept, 0, 4096))
        check(driver.cuGraphLaunch(self.graph, self.streams[0]))
        check(driver.cuStreamSynchronize(self.streams[0]))
        digest = hashlib.blake2b(digest_size=8)
        for address, size in [*self.live, (self.kept, 4096)]:
            data = bytearray(size)
            check(driver.cuMemcpyDtoH(data, address, size))
            digest.update(data)
        return digest.hexdigest()

    def attributes(self) -> list[int]:
        own = [
            int(check(driver.cuMemPoolGetAttribute(self.own, which)))
            for which in (
                THRESHOLD,
                _ATTRIBUTE.CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES,
                _ATTRIBUTE.CU_MEMPOOL_ATTR_USED_MEM_CURRENT,
            )
        ]
        return [*own, int(check(driver.cuMemPoolGetAttribute(self.default, THRESHOLD)))]

    def flat(self) -> bool:
        """A thousand pairs leave the memory in use as a hundred did."""
        used = []
        for count in (100, 1000):
            for _ in range(count):
                for pool in (None, self.own):
                    check(driver.cuMemFreeAsync(self.allocate(pool, 3 * MIB, self.streams[0]), self.streams[0]))
            check(driver.cuStreamSynchronize(self.streams[0]))
            reserved = _ATTRIBUTE.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT
            used.append([int(check(driver.cuMemPoolGetAttribute(p, reserved))) for p in (self.default, self.own)])
        return used[0] == used[1]


def main() -> None:
    arguments = pace.parser().parse_args()
    check(driver.cuInit(0))
    check(driver.cuCtxSetCurrent(check(driver.cuDevicePrimaryCtxRetain(0))))
    pools = Pools()
    for number in pace.steps(arguments):
        os.write(1, f"step {number} {pools.step(number)}\n".encode())
    os.write(1, f"pools {pools.attributes()}\nflat {pools.flat()}\n".encode())


main()
