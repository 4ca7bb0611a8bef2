"""What breaks a context: each in a process of its own."""

from __future__ import annotations

import ctypes
from typing import Any

from tests.conformance import gpu
from tests.conformance.api.programs import Notes, alone

SOURCE = r"""
extern "C" __device__ void __assertfail(const char*, const char*, unsigned, const char*, size_t);
KERNEL store(u32* p) { *p = 1; }
KERNEL load(u32* p, u32* q) { *q = *p; }
KERNEL add(u32* p) { atomicAdd(p, 1); }
KERNEL wide(u64* p) { *(volatile u64*)p = 1; }
KERNEL fetch(u32* p, u32* q) {
  uint4 v;
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
  *q = v.x + v.y + v.z + v.w;
}
KERNEL shared(u32 at) { extern __shared__ u32 s[]; ((volatile u32*)s)[at] = 1; }
KERNEL shared_wide(u32 at) { __shared__ u8 s[64]; *(volatile u64*)(s + at) = 1; }
KERNEL trapped() { __trap(); }
KERNEL failing(u32 v) { if (v != 3) __assertfail("v == 3", "case.cu", 77, "failing", 1); }
__device__ __noinline__ u32 deep(u32 n, volatile u32* p) {
  u32 v[64]; for (u32 i = 0; i < 64; ++i) v[i] = n + *p; return n ? deep(n - 1, p) + v[n & 63] : v[0];
}
KERNEL endless(u32* p) { *p = deep(100000000, p); }
KERNEL fine(u32* p) { *p = 2; }
"""


def break_it(note: Notes, name: str, *values: Any, shared: int = 0, block: int = 1) -> None:
    """Launches, and notes what a few calls say afterwards."""
    module, memory = gpu.module(SOURCE), gpu.Memory(bytes(64))
    fine, stream, event = gpu.function(module, "fine"), gpu.call("cuStreamCreate", 1), gpu.call("cuEventCreate", 0)
    told = [memory if value is None else value for value in values]
    function = gpu.function(module, name)
    note.status("cuLaunchKernel", function, 1, 1, 1, block, 1, 1, shared, 0, gpu.parameters(*told), 0, what="launch")
    note.status("cuCtxSynchronize")
    note.status("cuMemAlloc", 64)
    note.status("cuStreamQuery", stream)
    note.status("cuEventQuery", event)
    note.status("cuLaunchKernel", fine, 1, 1, 1, 1, 1, 1, 0, 0, gpu.parameters(memory), 0, what="another launch")
    note.status("cuMemcpyDtoH", bytearray(4), memory.address, 4)
    note.status("cuCtxGetDevice")


@alone
def store_to_null(note: Notes) -> None:
    break_it(note, "store", 0)


@alone
def store_far_away(note: Notes) -> None:
    break_it(note, "store", 0x7FFF00000000)


@alone
def load_from_null(note: Notes) -> None:
    break_it(note, "load", 16, None)


@alone
def atomic_on_nothing(note: Notes) -> None:
    break_it(note, "add", 64)


@alone
def misaligned_store(note: Notes) -> None:
    memory = gpu.Memory(bytes(64))
    break_it(note, "wide", memory.address + 4)


@alone
def misaligned_vector(note: Notes) -> None:
    memory = gpu.Memory(bytes(64))
    break_it(note, "fetch", memory.address + 8, None)


@alone
def misaligned_in_shared_memory(note: Notes) -> None:
    break_it(note, "shared_wide", ctypes.c_uint32(4))


@alone
def beyond_shared_memory(note: Notes) -> None:
    break_it(note, "shared", ctypes.c_uint32(1 << 20), shared=256)


@alone
def trap(note: Notes) -> None:
    break_it(note, "trapped")


@alone
def failed_assertion(note: Notes) -> None:
    break_it(note, "failing", ctypes.c_uint32(4))


@alone
def endless_recursion(note: Notes) -> None:
    break_it(note, "endless", None)


@alone
def work_after_a_reset(note: Notes) -> None:
    break_it(note, "trapped")
    note.status("cuDevicePrimaryCtxReset", 0)
    note.status("cuMemAlloc", 64, what="after the reset")
    note.status("cuDevicePrimaryCtxRetain", 0)
    note.status("cuDevicePrimaryCtxRelease", 0)
    note.status("cuDeviceGetCount")


@alone
def waiting_work_is_dropped(note: Notes) -> None:
    module, memory = gpu.module(SOURCE), gpu.Memory(bytes(4))
    stream = gpu.call("cuStreamCreate", 1)
    gpu.launch(gpu.function(module, "trapped"), stream=stream, wait=False)
    result = gpu.status("cuMemsetD8Async", memory.address, 1, 4, stream)
    note("queued or refused", result in ("SUCCESS", "ERROR_LAUNCH_FAILED"))
    note.status("cuStreamSynchronize", stream)
