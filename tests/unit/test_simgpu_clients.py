"""Client libraries from PyPI on the software GPU, unmodified."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.native.simgpu.program import environment

BINDINGS = """
import ctypes
from cuda.bindings import driver as cu

def call(name, *args):
    status, *values = getattr(cu, name)(*args)
    assert status == cu.CUresult.CUDA_SUCCESS, (name, status)
    return values[0] if len(values) == 1 else values

call("cuInit", 0)
device = call("cuDeviceGet", 0)
assert call("cuDeviceGetName", 64, device).rstrip(b"\\0 ") == b"Torpor software GPU"
call("cuCtxSetCurrent", call("cuDevicePrimaryCtxRetain", device))
stream, event = call("cuStreamCreate", 0), call("cuEventCreate", 0)

data = bytearray(range(256)) * 4096
size = len(data)
source = (ctypes.c_char * size).from_buffer(data)
memory = call("cuMemAlloc", size)
call("cuMemcpyHtoDAsync", memory, source, size, stream)

properties = cu.CUmemAllocationProp()
properties.type = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
properties.location.type = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
properties.location.id = 0
minimum = cu.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
block = call("cuMemGetAllocationGranularity", properties, minimum)
handle = call("cuMemCreate", block, properties, 0)
address = call("cuMemAddressReserve", block, 0, 0, 0)
call("cuMemMap", address, block, 0, handle, 0)
access = cu.CUmemAccessDesc()
access.location = properties.location
access.flags = cu.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
call("cuMemSetAccess", address, block, [access], 1)

call("cuMemcpyAsync", address, memory, size, stream)
call("cuEventRecord", event, stream)
call("cuEventSynchronize", event)
result = bytearray(size)
call("cuMemcpyDtoH", (ctypes.c_char * size).from_buffer(result), address, size)
assert result == data
status, _ = cu.cuModuleLoadData(b"no module, and no text of one")
assert status == cu.CUresult.CUDA_ERROR_INVALID_IMAGE
call("cuMemFree", memory)
call("cuMemUnmap", address, block)
call("cuMemRelease", handle)
print("done", call("cuMemGetInfo"))
"""


def test_cuda_bindings(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BINDINGS],
        env=environment(tmp_path, TORPOR_SIM_MEMORY="1G"),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"done [{1 << 30}, {1 << 30}]\n"
