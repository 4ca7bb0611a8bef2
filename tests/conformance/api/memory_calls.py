"""Allocations, copies, fills, attributes of pointers."""

from __future__ import annotations

from cuda.bindings import driver

from tests.conformance import gpu
from tests.conformance.api.programs import Notes, program

A = driver.CUpointer_attribute


@program
def allocation_sizes(note: Notes) -> None:
    for size in (1, 0, 1 << 44, 511, 4097):
        note.status("cuMemAlloc", size, what=f"cuMemAlloc {size}")
    one, two = (int(gpu.call("cuMemAlloc", 100)) for _ in range(2))
    note("aligned", [one % 256, two % 256])
    note("range", int(gpu.call("cuMemGetAddressRange", one + 5)[1]))
    note.status("cuMemFree", one + 4, what="free inside")
    note.status("cuMemFree", one)
    note.status("cuMemFree", one, what="free again")
    note.status("cuMemFree", 0, what="free nothing")
    note.status("cuMemGetAddressRange", one, what="range of what is free")


@program
def pitched(note: Notes) -> None:
    for width, height, element in ((100, 3, 4), (512, 2, 16), (513, 2, 8), (4096, 1, 4)):
        address, pitch = gpu.call("cuMemAllocPitch", width, height, element)
        note(f"pitch of {width}", int(pitch))
        gpu.call("cuMemFree", address)
    for width, height, element in ((0, 3, 4), (10, 0, 4), (10, 10, 5), (10, 10, 32)):
        note.status("cuMemAllocPitch", width, height, element, what=f"pitch {width} {height} {element}")


@program
def copies(note: Notes) -> None:
    data = bytes(range(256))
    a, b = gpu.Memory(data), gpu.Memory(bytes(256))
    gpu.call("cuMemcpyDtoD", b.address + 3, a.address + 10, 100)
    gpu.call("cuMemcpy", b.address + 200, a.address, 20)
    note("copied", b.read())
    note.status("cuMemcpyHtoD", a.address + 250, data, 20, what="past the end")
    note.status("cuMemcpyHtoD", a.address, data, 0, what="nothing")
    note.status("cuMemcpyDtoH", bytearray(8), 64, 8, what="from nowhere")
    note.status("cuMemcpyDtoD", a.address, 0, 8, what="from null")
    back = bytearray(16)
    gpu.call("cuMemcpyDtoHAsync", back, a.address + 16, 16, 0)
    gpu.call("cuStreamSynchronize", 0)
    note("asynchronous", back)


@program
def fills(note: Notes) -> None:
    memory = gpu.Memory(bytes(64))
    gpu.call("cuMemsetD8", memory.address + 1, 0xAB, 5)
    gpu.call("cuMemsetD16", memory.address + 8, 0x1234, 3)
    gpu.call("cuMemsetD32", memory.address + 16, 0xDEADBEEF, 2)
    gpu.call("cuMemsetD2D8", memory.address + 32, 8, 0x77, 3, 3)
    note("filled", memory.read())
    note.status("cuMemsetD16", memory.address + 1, 1, 1, what="misaligned 16")
    note.status("cuMemsetD32", memory.address + 2, 1, 1, what="misaligned 32")
    note.status("cuMemsetD8", memory.address, 1, 1 << 20, what="too long")
    note.status("cuMemsetD8", memory.address, 1, 0, what="nothing")
    note.status("cuMemsetD2D8", memory.address, 2, 1, 4, 2, what="pitch below width")


def _copy2d(source: int, target: int, **more: int) -> driver.CUDA_MEMCPY2D:
    copy = driver.CUDA_MEMCPY2D()
    device = driver.CUmemorytype.CU_MEMORYTYPE_DEVICE
    copy.srcMemoryType, copy.srcDevice, copy.srcPitch = device, source, 16
    copy.dstMemoryType, copy.dstDevice, copy.dstPitch = device, target, 8
    copy.WidthInBytes, copy.Height = 6, 4
    for name, value in more.items():
        setattr(copy, name, value)
    return copy


@program
def two_dimensions(note: Notes) -> None:
    a, b = gpu.Memory(bytes(range(128))), gpu.Memory(bytes(64))
    gpu.call("cuMemcpy2D", _copy2d(a.address, b.address, srcXInBytes=3, srcY=2, dstXInBytes=1, dstY=3))
    note("copied", b.read())
    gpu.call("cuMemcpy2DUnaligned", _copy2d(a.address + 1, b.address))
    gpu.call("cuMemcpy2DAsync", _copy2d(a.address, b.address, Height=1), 0)
    gpu.call("cuStreamSynchronize", 0)
    note("copied more", b.read())
    for what in ({"WidthInBytes": 0}, {"Height": 0}, {"srcPitch": 4}, {"dstPitch": 5}, {"Height": 9}, {"srcY": 6}):
        note.status("cuMemcpy2D", _copy2d(a.address, b.address, **what), what=str(what))


@program
def three_dimensions(note: Notes) -> None:
    a, b = gpu.Memory(bytes(n * 7 & 255 for n in range(4 * 4 * 8))), gpu.Memory(bytes(96))
    copy = driver.CUDA_MEMCPY3D()
    device = driver.CUmemorytype.CU_MEMORYTYPE_DEVICE
    copy.srcMemoryType, copy.srcDevice, copy.srcPitch, copy.srcHeight = device, a.address, 8, 4
    copy.dstMemoryType, copy.dstDevice, copy.dstPitch, copy.dstHeight = device, b.address, 6, 4
    copy.WidthInBytes, copy.Height, copy.Depth = 5, 2, 3
    copy.srcXInBytes, copy.srcY, copy.srcZ, copy.dstXInBytes, copy.dstY, copy.dstZ = 2, 1, 1, 1, 2, 1
    note.status("cuMemcpy3D", copy)
    note("copied", b.read())
    copy.Depth = 0
    note.status("cuMemcpy3D", copy, what="no depth")
    copy.Depth, copy.dstHeight = 2, 1
    note.status("cuMemcpy3D", copy, what="height below rows")


@program
def device_pointer_attributes(note: Notes) -> None:
    memory = gpu.Memory(bytes(100))
    for name in ("MEMORY_TYPE", "IS_MANAGED", "RANGE_SIZE", "MAPPED", "IS_LEGACY_CUDA_IPC_CAPABLE", "SYNC_MEMOPS",
                 "DEVICE_ORDINAL", "ALLOWED_HANDLE_TYPES", "IS_GPU_DIRECT_RDMA_CAPABLE"):  # fmt: skip
        value = gpu.call("cuPointerGetAttribute", getattr(A, f"CU_POINTER_ATTRIBUTE_{name}"), memory.address + 7)
        note(name, int(value))
    start = gpu.call("cuPointerGetAttribute", A.CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, memory.address + 7)
    note("start", int(start) == memory.address)
    note.status("cuPointerGetAttribute", A.CU_POINTER_ATTRIBUTE_HOST_POINTER, memory.address, what="host pointer")
    note.status("cuPointerGetAttribute", A.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 12345, what="junk")


@program
def host_memory(note: Notes) -> None:
    host = gpu.call("cuMemHostAlloc", 4096, driver.CU_MEMHOSTALLOC_DEVICEMAP | driver.CU_MEMHOSTALLOC_PORTABLE)
    address = int(host)
    note("flags", int(gpu.call("cuMemHostGetFlags", host)))
    device = int(gpu.call("cuMemHostGetDevicePointer", host, 0))
    note("same address", device == address)
    for name in ("MEMORY_TYPE", "IS_MANAGED", "MAPPED", "RANGE_SIZE"):
        value = gpu.call("cuPointerGetAttribute", getattr(A, f"CU_POINTER_ATTRIBUTE_{name}"), device)
        note(name, int(value))
    gpu.call("cuMemsetD32", device, 0x01020304, 4)
    note("read", gpu.read(device, 18))
    note.status("cuMemFreeHost", host)
    note.status("cuMemFreeHost", host, what="free again")
    note.status("cuMemHostAlloc", 100, 0x100, what="unknown flag")
    note.status("cuMemHostAlloc", 0, 0, what="nothing")


@program
def registered_memory(note: Notes) -> None:
    import ctypes
    import mmap

    pages = mmap.mmap(-1, 1 << 16)
    address = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    note.status("cuMemHostRegister", address, 1 << 16, driver.CU_MEMHOSTREGISTER_DEVICEMAP)
    note.status("cuMemHostRegister", address, 4096, 0, what="register again")
    device = int(gpu.call("cuMemHostGetDevicePointer", address, 0))
    gpu.call("cuMemsetD8", device + 100, 0x5C, 8)
    note("written", pages[96:112])
    note.status("cuMemHostUnregister", address)
    note.status("cuMemHostUnregister", address, what="unregister again")
    note.status("cuMemHostGetDevicePointer", address, 0, what="pointer after")


@program
def managed_memory(note: Notes) -> None:
    attach = driver.CUmemAttach_flags
    memory = int(gpu.call("cuMemAllocManaged", 4096, attach.CU_MEM_ATTACH_GLOBAL.value))
    for name in ("MEMORY_TYPE", "IS_MANAGED", "RANGE_SIZE"):
        note(name, int(gpu.call("cuPointerGetAttribute", getattr(A, f"CU_POINTER_ATTRIBUTE_{name}"), memory)))
    gpu.call("cuMemsetD32", memory, 77, 4)
    gpu.call("cuCtxSynchronize")
    note("read", gpu.read(memory, 20))
    note.status("cuMemFree", memory)
    note.status("cuMemAllocManaged", 0, attach.CU_MEM_ATTACH_GLOBAL.value, what="nothing")
    note.status("cuMemAllocManaged", 64, 0, what="no flag")


@program
def virtual_memory(note: Notes) -> None:
    wanted = driver.CUmemAllocationProp()
    wanted.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    wanted.location.type, wanted.location.id = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE, 0
    minimum = driver.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
    block = int(gpu.call("cuMemGetAllocationGranularity", wanted, minimum))
    note("granularity", block)
    address = int(gpu.call("cuMemAddressReserve", 2 * block, 0, 0, 0))
    handle = gpu.call("cuMemCreate", block, wanted, 0)
    note.status("cuMemCreate", block + 1, wanted, 0, what="odd size")
    note.status("cuMemsetD8", address, 1, 8, what="unmapped")
    note.status("cuMemMap", address, block, 0, handle, 0)
    note.status("cuMemMap", address, block, 0, handle, 0, what="map again")
    access = driver.CUmemAccessDesc()
    access.location = wanted.location
    access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    note.status("cuMemSetAccess", address, block, [access], 1)
    note.status("cuMemSetAccess", address + block, block, [access], 1, what="access to nothing")
    gpu.call("cuMemsetD8", address, 0x3E, 32)
    gpu.call("cuMemMap", address + block, block, 0, handle, 0)
    gpu.call("cuMemSetAccess", address + block, block, [access], 1)
    note("second view", gpu.read(address + block + 28, 6))
    note("access", int(gpu.call("cuMemGetAccess", wanted.location, address)))
    note.status("cuMemRelease", handle)
    note("still there", gpu.read(address + 30, 2))
    note.status("cuMemAddressFree", address, 2 * block, what="reservation in use")
    note.status("cuMemUnmap", address, 2 * block)
    note.status("cuMemUnmap", address, block, what="unmap again")
    note.status("cuMemAddressFree", address, 2 * block)
    note.status("cuMemRelease", handle, what="release again")


@program
def pools(note: Notes) -> None:
    stream = gpu.call("cuStreamCreate", 1)
    memory = int(gpu.call("cuMemAllocAsync", 1000, stream))
    gpu.call("cuMemsetD8Async", memory, 9, 1000, stream)
    gpu.call("cuStreamSynchronize", stream)
    note("written", gpu.read(memory + 990, 10))
    pool = gpu.call("cuPointerGetAttribute", A.CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, memory)
    note("of the default pool", int(pool) == int(gpu.call("cuDeviceGetDefaultMemPool", 0)))
    note.status("cuMemFreeAsync", memory, stream)
    gpu.call("cuStreamSynchronize", stream)
    wanted = driver.CUmemPoolProps()
    wanted.allocType = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    wanted.location.type, wanted.location.id = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE, 0
    own = gpu.call("cuMemPoolCreate", wanted)
    attribute = driver.CUmemPool_attribute
    note("threshold", int(gpu.call("cuMemPoolGetAttribute", own, attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)))
    note("reuse", int(gpu.call("cuMemPoolGetAttribute", own, attribute.CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC)))
    memory = int(gpu.call("cuMemAllocFromPoolAsync", 512, own, stream))
    note("used", int(gpu.call("cuMemPoolGetAttribute", own, attribute.CU_MEMPOOL_ATTR_USED_MEM_CURRENT)))
    note.status("cuMemPoolTrimTo", own, 0)
    note.status("cuMemFree", memory, what="free of the pool's memory")
    note.status("cuMemPoolDestroy", own)
    note.status("cuMemPoolDestroy", gpu.call("cuDeviceGetDefaultMemPool", 0), what="destroy the default pool")
    note.status("cuMemFreeAsync", 64, stream, what="free of nothing")
