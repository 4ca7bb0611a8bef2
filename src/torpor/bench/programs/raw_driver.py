"""In-device bandwidth and plain matrix products through the driver alone; needs cuda-bindings, and no compiler.

For each line "<kind> <count>" on standard input, does it that often and prints the nanoseconds of each. Kinds:
`copy:BYTES` and `fill:BYTES` inside device memory; `peer:BYTES` from the first GPU to the second; `f32:N` and `f64:N`,
the product of two N × N matrices (N divisible by 16) by a kernel that is written in PTX and makes no use of tensor
cores or shared memory.
"""

from __future__ import annotations

import ctypes
import sys
import time
from typing import Any

from cuda.bindings import driver

SIDE = 16

KERNEL = """
.visible .entry matmul_{type}(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n) {{
  .reg .pred %more;
  .reg .u32 %n, %row, %column, %k, %at;
  .reg .u64 %a, %b, %c, %offset, %step;
  .reg .{type} %sum, %x, %y;
  ld.param.u64 %a, [a];
  ld.param.u64 %b, [b];
  ld.param.u64 %c, [c];
  ld.param.u32 %n, [n];
  mov.u32 %row, %ctaid.y;
  mov.u32 %at, %tid.y;
  mad.lo.u32 %row, %row, {side}, %at;
  mov.u32 %column, %ctaid.x;
  mov.u32 %at, %tid.x;
  mad.lo.u32 %column, %column, {side}, %at;
  mul.lo.u32 %at, %row, %n;
  mul.wide.u32 %offset, %at, {size};
  add.u64 %a, %a, %offset;
  mul.wide.u32 %offset, %column, {size};
  add.u64 %b, %b, %offset;
  add.u32 %at, %at, %column;
  mul.wide.u32 %offset, %at, {size};
  add.u64 %c, %c, %offset;
  mul.wide.u32 %step, %n, {size};
  mov.{type} %sum, {zero};
  mov.u32 %k, 0;
next:
  ld.global.{type} %x, [%a];
  ld.global.{type} %y, [%b];
  fma.rn.{type} %sum, %x, %y, %sum;
  add.u64 %a, %a, {size};
  add.u64 %b, %b, %step;
  add.u32 %k, %k, 1;
  setp.lt.u32 %more, %k, %n;
  @%more bra next;
  st.global.{type} [%c], %sum;
  ret;
}}
"""
HEAD = ".version 7.0\n.target sm_70\n.address_size 64\n"
TYPES = {"f32": (4, "0f00000000"), "f64": (8, "0d0000000000000000")}


def check(result: tuple[Any, ...]) -> Any:
    """What a call gave; ends the program when it failed."""
    status, *values = result
    if status != driver.CUresult.CUDA_SUCCESS:
        raise SystemExit(f"a call failed: {status.name}")
    return values[0] if len(values) == 1 else values


class Memory:
    """Device memory by purpose: made when it is first asked for, made anew when more is needed."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[int, int]] = {}

    def of(self, purpose: str, size: int) -> int:
        """The address of at least `size` bytes, zeroed when they are new."""
        address, held = self._held.get(purpose, (0, 0))
        if held < size:
            if held:
                check(driver.cuMemFree(address))
            address = int(check(driver.cuMemAlloc(size)))
            check(driver.cuMemsetD8(address, 0, size))
            self._held[purpose] = (address, size)
        return address


class Neighbour:
    """Memory on the second GPU, which is looked for only when it is asked for; the two reach each other if they can."""

    def __init__(self, context: Any) -> None:
        self._first, self._memory, self._own = context, Memory(), None

    def of(self, size: int) -> tuple[int, Any]:
        """The address of at least `size` bytes there, and the context."""
        if self._own is None:
            first, second = (check(driver.cuDeviceGet(ordinal)) for ordinal in (0, 1))
            self._own = check(driver.cuDevicePrimaryCtxRetain(second))
            if check(driver.cuDeviceCanAccessPeer(first, second)):
                check(driver.cuCtxEnablePeerAccess(self._own, 0))
        check(driver.cuCtxSetCurrent(self._own))
        address = self._memory.of("to", size)
        check(driver.cuCtxSetCurrent(self._first))
        return address, self._own


def main() -> None:
    check(driver.cuInit(0))
    context = check(driver.cuDevicePrimaryCtxRetain(check(driver.cuDeviceGet(0))))
    check(driver.cuCtxSetCurrent(context))
    stream = check(driver.cuStreamCreate(1))
    text = HEAD + "".join(
        KERNEL.format(type=name, size=size, zero=zero, side=SIDE) for name, (size, zero) in TYPES.items()
    )
    module = check(driver.cuModuleLoadData(text.encode() + b"\0"))
    kernels = {name: check(driver.cuModuleGetFunction(module, f"matmul_{name}".encode())) for name in TYPES}
    memory, neighbour = Memory(), Neighbour(context)

    def once(kind: str, size: int) -> None:
        if kind == "copy":
            check(driver.cuMemcpyDtoDAsync(memory.of("to", size), memory.of("from", size), size, stream))
        elif kind == "peer":
            check(driver.cuMemcpyPeerAsync(*neighbour.of(size), memory.of("from", size), context, size, stream))
        elif kind == "fill":
            check(driver.cuMemsetD32Async(memory.of("to", size), 7, size // 4, stream))
        else:
            addresses = [memory.of(f"{kind}{name}", size * size * TYPES[kind][0]) for name in "abc"]
            values, types = (*addresses, size), (*[ctypes.c_uint64] * 3, ctypes.c_uint32)
            blocks = size // SIDE
            shape = (blocks, blocks, 1, SIDE, SIDE, 1, 0, stream)
            check(driver.cuLaunchKernel(kernels[kind], *shape, (values, types), 0))

    for line in sys.stdin:
        wanted, count = line.split()
        kind, _, size = wanted.partition(":")
        once(kind, int(size))
        check(driver.cuStreamSynchronize(stream))
        start = time.perf_counter_ns()
        for _ in range(int(count)):
            once(kind, int(size))
        check(driver.cuStreamSynchronize(stream))
        print(f"{(time.perf_counter_ns() - start) / int(count):.1f}", flush=True)


if __name__ == "__main__":
    main()
