"""Devices, contexts, limits, names of errors."""

from __future__ import annotations

from cuda.bindings import driver

from tests.conformance import gpu
from tests.conformance.api.programs import Notes, alone, program


@program
def error_texts(note: Notes) -> None:
    for code in (0, 1, 2, 3, 100, 201, 209, 218, 222, 400, 500, 600, 700, 701, 709, 716, 719, 720, 800, 801, 900, 999):
        result = driver.CUresult(code)
        note(str(code), [gpu.call("cuGetErrorName", result).decode(), gpu.call("cuGetErrorString", result).decode()])


@program
def limits(note: Notes) -> None:
    kinds = driver.CUlimit
    for name in ("STACK_SIZE", "PRINTF_FIFO_SIZE", "MALLOC_HEAP_SIZE", "DEV_RUNTIME_SYNC_DEPTH"):
        note.status("cuCtxGetLimit", getattr(kinds, f"CU_LIMIT_{name}"), what=f"get {name}")
    for name in ("STACK_SIZE", "PRINTF_FIFO_SIZE", "MALLOC_HEAP_SIZE"):
        note(name, int(gpu.call("cuCtxGetLimit", getattr(kinds, f"CU_LIMIT_{name}"))))
    gpu.call("cuCtxSetLimit", kinds.CU_LIMIT_STACK_SIZE, 2000)
    note("stack", int(gpu.call("cuCtxGetLimit", kinds.CU_LIMIT_STACK_SIZE)))
    note.status("cuCtxSetLimit", kinds.CU_LIMIT_STACK_SIZE, 1 << 40, what="endless stack")


@program
def attributes_of_the_device(note: Notes) -> None:
    names = ("MAX_THREADS_PER_BLOCK MAX_BLOCK_DIM_X MAX_BLOCK_DIM_Z MAX_GRID_DIM_X MAX_GRID_DIM_Y WARP_SIZE "
             "MAX_SHARED_MEMORY_PER_BLOCK MAX_SHARED_MEMORY_PER_BLOCK_OPTIN TOTAL_CONSTANT_MEMORY "
             "MAX_REGISTERS_PER_BLOCK MULTIPROCESSOR_COUNT COMPUTE_CAPABILITY_MAJOR COMPUTE_CAPABILITY_MINOR "
             "UNIFIED_ADDRESSING MANAGED_MEMORY CONCURRENT_KERNELS COOPERATIVE_LAUNCH MEMORY_POOLS_SUPPORTED "
             "VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED MAX_THREADS_PER_MULTIPROCESSOR MAX_BLOCKS_PER_MULTIPROCESSOR "
             "INTEGRATED CAN_MAP_HOST_MEMORY ECC_ENABLED ASYNC_ENGINE_COUNT L2_CACHE_SIZE "
             "STREAM_PRIORITIES_SUPPORTED MAX_PITCH TEXTURE_ALIGNMENT RESERVED_SHARED_MEMORY_PER_BLOCK")  # fmt: skip
    for name in names.split():
        attribute = getattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        note(name, int(gpu.call("cuDeviceGetAttribute", attribute, 0)))
    note.status("cuDeviceGet", 99, what="device 99")
    width = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_WARP_SIZE
    note.status("cuDeviceGetAttribute", width, 99, what="of device 99")


@program
def stack_of_contexts(note: Notes) -> None:
    primary = gpu.call("cuCtxGetCurrent")
    gpu.call("cuCtxPushCurrent", primary)
    note("popped the primary", int(gpu.call("cuCtxPopCurrent")) == int(primary))
    note("current", int(gpu.call("cuCtxGetCurrent")) == int(primary))
    popped = gpu.call("cuCtxPopCurrent")
    note.status("cuCtxPopCurrent", what="pop from nothing")
    note("current", int(gpu.call("cuCtxGetCurrent")))
    note.status("cuMemAlloc", 64, what="without a context")
    note.status("cuCtxSynchronize", what="synchronise without a context")
    gpu.call("cuCtxSetCurrent", popped)
    note("version", int(gpu.call("cuCtxGetApiVersion", primary)))
    note("flags", int(gpu.call("cuCtxGetFlags")))
    flags, active = gpu.call("cuDevicePrimaryCtxGetState", 0)
    note("primary", [int(flags), int(active)])


@alone
def a_context_of_our_own(note: Notes) -> None:
    memory, primary = gpu.Memory(b"torpor!!"), gpu.call("cuCtxGetCurrent")
    own = gpu.call("cuCtxCreate", None, 0, 0)
    note("current", int(gpu.call("cuCtxGetCurrent")) == int(own))
    inside = gpu.Memory(bytes(8))
    note.status("cuMemcpyDtoD", inside.address, memory.address, 8, what="from the other context")
    note("copied", inside.read())
    note.status("cuCtxDestroy", own)
    note("current", int(gpu.call("cuCtxGetCurrent")) == int(primary))
    note.status("cuCtxDestroy", own, what="destroy again")


@alone
def reset_of_the_primary_context(note: Notes) -> None:
    memory = gpu.Memory(bytes(8))
    note.status("cuDevicePrimaryCtxReset", 0)
    note.status("cuMemAlloc", 64, what="after the reset")
    note("state", [int(n) for n in gpu.call("cuDevicePrimaryCtxGetState", 0)])
    gpu.call("cuCtxSetCurrent", gpu.call("cuDevicePrimaryCtxRetain", 0))
    note.status("cuMemAlloc", 64, what="retained again")
    note.status("cuMemcpyDtoH", bytearray(8), memory.address, 8, what="memory from before")


@program
def peers_of_one_device(note: Notes) -> None:
    note("can access itself", int(gpu.call("cuDeviceCanAccessPeer", 0, 0)))
    note.status("cuCtxEnablePeerAccess", gpu.call("cuCtxGetCurrent"), 0, what="peer access to itself")
    note.status("cuCtxDisablePeerAccess", gpu.call("cuCtxGetCurrent"), what="no peer access")
    a, b, here = gpu.Memory(b"12345678"), gpu.Memory(bytes(8)), gpu.call("cuCtxGetCurrent")
    note.status("cuMemcpyPeer", b.address, here, a.address, here, 8)
    note("copied", b.read())


@program
def handles_between_processes(note: Notes) -> None:
    memory = gpu.Memory(bytes(64))
    note.status("cuIpcGetMemHandle", memory.address, what="handle")
    note.status("cuIpcGetMemHandle", 64, what="handle of nothing")
    event = gpu.call("cuEventCreate", 4 | 2)
    note.status("cuIpcGetEventHandle", event, what="handle of an event")
    note.status("cuIpcGetEventHandle", gpu.call("cuEventCreate", 0), what="of an event that is not for it")
    handle = gpu.call("cuIpcGetMemHandle", memory.address)
    note.status("cuIpcOpenMemHandle", handle, 1, what="open in the same process")
