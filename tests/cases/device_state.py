"""What belongs to a context and is neither memory nor an object: what kernels print, limits, registrations in use."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cuda.bindings import driver

from tests.cases.streams import SIZE, Arguments, check, context, device_memory, function, launch, words

Check = Callable[[], Any]

LIBC = ctypes.CDLL(None)
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]

TEXT = b"kernel says %d\n\0"
PRINTING = b""".version 7.0
.target sm_70
.address_size 64
.extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);
.global .align 1 .b8 text[%d] = {%s};
.visible .entry say(.param .u32 value) {
  .local .align 8 .b8 buffer[8];
  .reg .u64 a, b, l; .reg .u32 v;
  ld.param.u32 v, [value];
  mov.u64 l, buffer; cvta.local.u64 b, l; st.local.u32 [buffer], v;
  mov.u64 a, text; cvta.global.u64 a, a;
  { .param .b64 p; .param .b64 q; .param .b32 r; st.param.b64 [p], a; st.param.b64 [q], b;
    call.uni (r), vprintf, (p, q); }
  ret;
}
""" % (len(TEXT), ", ".join(map(str, TEXT)).encode())


def printing(_place: Path) -> Check:
    """What a kernel printed and nobody has synchronised for, and what one prints later: each comes out once."""
    kernel = check(driver.cuModuleGetFunction(check(driver.cuModuleLoadData(PRINTING + b"\0")), b"say"))
    count = [0]

    def say() -> None:
        count[0] += 1
        launch(kernel, Arguments(ctypes.c_uint32(count[0])))

    say()

    def look() -> Any:
        say()
        check(driver.cuCtxSynchronize())
        LIBC.fflush(None)
        say()  # left in the buffer
        return count[0]

    return look


def limits(_place: Path) -> Check:
    kinds = driver.CUlimit
    wanted = {
        kinds.CU_LIMIT_PRINTF_FIFO_SIZE: 3 << 20,
        kinds.CU_LIMIT_MALLOC_HEAP_SIZE: 24 << 20,
        kinds.CU_LIMIT_STACK_SIZE: 2048,
    }
    for kind, value in wanted.items():
        check(driver.cuCtxSetLimit(kind, value))
    return lambda: [int(check(driver.cuCtxGetLimit(kind))) for kind in wanted]


def graphs_on_registered(_place: Path) -> Check:
    """Graphs on registered host memory, launched as they are: one on the same pages, one over new pages each time.

    The latter only works for kernels: once memory was registered anew, the driver answers a graph that copies from it
    with LAUNCH_FAILED (580, natively).
    """
    same, fresh = mmap.mmap(-1, 2 * SIZE), mmap.mmap(-1, 2 * SIZE)
    mirror, stream = device_memory(), check(driver.cuStreamCreate(1))

    def graph(area: mmap.mmap, *, copies: bool) -> tuple[int, Any]:
        start = ctypes.addressof(ctypes.c_char.from_buffer(area))
        check(driver.cuMemHostRegister(start, SIZE, 2))
        pointer = int(check(driver.cuMemHostGetDevicePointer(start, 0)))
        arguments = Arguments(ctypes.c_uint64(pointer), ctypes.c_uint32(3))
        kernel = function(b"add")
        check(driver.cuStreamBeginCapture(stream, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL))
        launch(kernel, arguments, stream)
        if copies:
            check(driver.cuMemcpyHtoDAsync(mirror, start, 4, stream))
        return start, check(driver.cuGraphInstantiate(check(driver.cuStreamEndCapture(stream)), 0))

    (kept, copying), (changed, computing) = graph(same, copies=True), graph(fresh, copies=False)

    def run(ready: Any, start: int) -> int:
        check(driver.cuGraphLaunch(ready, stream))
        check(driver.cuStreamSynchronize(stream))
        return ctypes.c_uint32.from_address(start).value

    first = run(copying, kept), run(computing, changed), words(mirror, 1)

    def look() -> Any:
        found = [first, run(copying, kept), run(computing, changed), words(mirror, 1)]
        check(driver.cuMemHostUnregister(changed))
        flags = mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | 0x10  # MAP_FIXED
        if LIBC.mmap(changed, SIZE, 3, flags, -1, 0) != changed:
            raise RuntimeError("the address is not kept")
        check(driver.cuMemHostRegister(changed, SIZE, 2))
        again = driver.cuMemHostRegister(changed, SIZE, 2)[0].name
        return [*found, run(computing, changed), again, len(same), len(fresh)]

    return look


def buffer_id(_place: Path) -> Check:
    """By which libraries tell whether memory at an address is still the one that they registered."""
    which = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_BUFFER_ID
    pieces = [int(check(driver.cuMemAlloc(size))) for size in (700, 5 << 20)]

    def ids() -> list[int]:
        return [int(check(driver.cuPointerGetAttribute(which, piece))) for piece in pieces]

    before = ids()
    return lambda: (ids() == before, len(set(ids())))


def identity(_place: Path) -> Check:
    """Every name of the GPU leads to the same one."""
    device = check(driver.cuDeviceGet(0))

    def look() -> Any:
        bus = check(driver.cuDeviceGetPCIBusId(64, device)).split(b"\0")[0]
        return int(check(driver.cuDeviceGetByPCIBusId(bus))), check(driver.cuDeviceGetCount())

    return look


def _in_context(kind: Callable[[Path], Check]) -> Callable[[Path], Check]:
    def made(place: Path) -> Check:
        context()
        return kind(place)

    return made


KINDS = {one.__name__: _in_context(one) for one in (limits, graphs_on_registered, buffer_id, identity, printing)}
"""`printing` is the last to be set up: nothing synchronises for it before the first round."""
