"""Objects of the driver, used before and after: streams, events, graphs, modules, pinned memory."""

from __future__ import annotations

import ctypes
import mmap
import struct
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cuda.bindings import driver

Check = Callable[[], Any]

LIBRARY = ctypes.CDLL("libcuda.so.1")
"""For what cuda-bindings wraps in something of its own."""

AFTERWARDS: list[Callable[[], object]] = []

SIZE = 1 << 16
PTX = b""".version 7.0
.target sm_70
.address_size 64
.global .align 4 .u32 counter = 7;
.visible .entry add(.param .u64 to, .param .u32 value) {
  .reg .u64 a; .reg .u32 v, w, t;
  ld.param.u64 a, [to]; ld.param.u32 w, [value];
  mov.u32 t, %tid.x; mad.wide.u32 a, t, 4, a;
  ld.global.u32 v, [a]; add.u32 v, v, w; st.global.u32 [a], v; ret;
}
.visible .entry count(.param .u64 to) {
  .reg .u64 a; .reg .u32 v;
  ld.param.u64 a, [to];
  ld.global.u32 v, [counter]; add.u32 v, v, 1; st.global.u32 [counter], v; st.global.u32 [a], v; ret;
}
.visible .entry wait_for(.param .u64 flag) {
  .reg .u64 a; .reg .u32 v; .reg .pred p;
  ld.param.u64 a, [flag];
again:
  ld.volatile.global.u32 v, [a]; setp.eq.u32 p, v, 0; @p bra again; ret;
}
"""


def check(result: tuple[Any, ...]) -> Any:
    status, *values = result
    if status != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(status.name)
    return values[0] if len(values) == 1 else values


def context() -> None:
    """Make the primary context current; once per process."""
    check(driver.cuInit(0))
    check(driver.cuCtxSetCurrent(check(driver.cuDevicePrimaryCtxRetain(check(driver.cuDeviceGet(0))))))


def device_memory() -> int:
    address = int(check(driver.cuMemAlloc(SIZE)))
    check(driver.cuMemsetD8(address, 0, SIZE))
    return address


def words(address: int, count: int = 4) -> list[int]:
    data = bytearray(4 * count)
    check(driver.cuMemcpyDtoH(data, address, len(data)))
    return list(struct.unpack(f"{count}I", data))


class Arguments:
    """Kernel parameters that stay where they are: (values), each a ctypes value."""

    def __init__(self, *values: Any) -> None:
        self.values = values
        self.array = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))

    @property
    def address(self) -> int:
        return ctypes.addressof(self.array)


def function(name: bytes) -> Any:
    return check(driver.cuModuleGetFunction(check(driver.cuModuleLoadData(PTX + b"\0")), name))


def launch(kernel: Any, arguments: Arguments, stream: Any = 0, threads: int = 1) -> None:
    check(driver.cuLaunchKernel(kernel, 1, 1, 1, threads, 1, 1, 0, stream, arguments.address, 0))


def priorities(_place: Path) -> Check:
    least, greatest = check(driver.cuCtxGetStreamPriorityRange())
    streams = [check(driver.cuStreamCreateWithPriority(flags, rank)) for flags, rank in ((0, least), (1, greatest))]
    address, kernel = device_memory(), function(b"add")
    arguments = Arguments(ctypes.c_uint64(address), ctypes.c_uint32(3))

    def look() -> Any:
        for stream in streams:
            launch(kernel, arguments, stream)
            check(driver.cuStreamSynchronize(stream))
        facts = [(check(driver.cuStreamGetPriority(s)), check(driver.cuStreamGetFlags(s))) for s in streams]
        return facts, words(address, 1), check(driver.cuCtxGetStreamPriorityRange())

    return look


def events(_place: Path) -> Check:
    stream = check(driver.cuStreamCreate(1))
    began, ended, never, untimed = (check(driver.cuEventCreate(flags)) for flags in (0, 0, 0, 2))
    check(driver.cuEventRecord(began, stream))
    launch(function(b"add"), Arguments(ctypes.c_uint64(device_memory()), ctypes.c_uint32(1)), stream)
    check(driver.cuEventRecord(ended, stream))
    check(driver.cuEventRecord(untimed, stream))
    check(driver.cuStreamSynchronize(stream))
    span = check(driver.cuEventElapsedTime(began, ended))
    other = check(driver.cuStreamCreate(1))

    def look() -> Any:
        found = [driver.cuEventQuery(event)[0].name for event in (began, ended, never, untimed)]
        same = check(driver.cuEventElapsedTime(began, ended)) == span
        wrong = driver.cuEventElapsedTime(began, untimed)[0].name
        check(driver.cuStreamWaitEvent(other, untimed, 0))
        check(driver.cuEventRecord(untimed, other))
        check(driver.cuEventSynchronize(untimed))
        return found, same, wrong

    return look


def graph(_place: Path) -> Check:
    """Captured: kernel, copy, fill, host function, memory of its own; launched and changed through the old handles."""
    stream = check(driver.cuStreamCreate(1))
    source, target, kernel = device_memory(), device_memory(), function(b"add")
    calls = [0]

    def host(_data: Any) -> None:
        calls[0] += 1

    callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(host)
    arguments = Arguments(ctypes.c_uint64(source), ctypes.c_uint32(5))
    check(driver.cuStreamBeginCapture(stream, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL))
    launch(kernel, arguments, stream, 4)
    own = check(driver.cuMemAllocAsync(SIZE, stream))
    check(driver.cuMemcpyDtoDAsync(own, source, 16, stream))
    check(driver.cuMemsetD32Async(int(own) + 8, 99, 1, stream))
    check(driver.cuMemcpyDtoDAsync(target, own, 16, stream))
    check(driver.cuMemFreeAsync(own, stream))
    # cuda-bindings 13.3 frees what it wraps a host function in after the first of its calls.
    assert LIBRARY.cuLaunchHostFunc(ctypes.c_void_p(int(stream)), callback, None) == 0
    captured = check(driver.cuStreamEndCapture(stream))
    ready = check(driver.cuGraphInstantiate(captured, 0))
    _, count = check(driver.cuGraphGetNodes(captured, 0))
    nodes, _ = check(driver.cuGraphGetNodes(captured, count))
    kind = driver.CUgraphNodeType.CU_GRAPH_NODE_TYPE_KERNEL
    [node] = [one for one in nodes if check(driver.cuGraphNodeGetType(one)) == kind]
    keep = [callback, arguments]

    def run() -> list[int]:
        check(driver.cuGraphLaunch(ready, stream))
        check(driver.cuStreamSynchronize(stream))
        return words(target)

    for _time in range(3):
        run()

    def look() -> Any:
        found = [run()]
        parameters = check(driver.cuGraphKernelNodeGetParams(node))
        changed = Arguments(ctypes.c_uint64(source), ctypes.c_uint32(1000))
        keep.append(changed)
        parameters.kernelParams = changed.address
        check(driver.cuGraphExecKernelNodeSetParams(ready, node, parameters))
        found.append(run())
        return found, calls[0], count

    return look


def user_object(_place: Path) -> Check:
    """Destroyed once, when the last graph that holds it goes."""
    destroyed: list[int] = []
    callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(destroyed.append)
    pointer = ctypes.cast(callback, ctypes.c_void_p).value
    flags = driver.CUuserObject_flags.CU_USER_OBJECT_NO_DESTRUCTOR_SYNC
    made = check(driver.cuUserObjectCreate(77, driver.CUhostFn(pointer), 1, flags))
    holder = check(driver.cuGraphCreate(0))
    check(driver.cuGraphRetainUserObject(holder, made, 1, 1))  # moves our reference
    left = [holder]

    def look() -> Any:
        before = list(destroyed)
        if left:
            check(driver.cuGraphDestroy(left.pop()))
            while not destroyed:  # by a thread of the driver's
                time.sleep(0.001)
        return before, list(destroyed), bool(callback)

    return look


def globals_of_a_module(_place: Path) -> Check:
    module = check(driver.cuModuleLoadData(PTX + b"\0"))
    kernel = check(driver.cuModuleGetFunction(module, b"count"))
    address = device_memory()
    arguments = Arguments(ctypes.c_uint64(address))
    place, size = check(driver.cuModuleGetGlobal(module, b"counter"))

    def look() -> Any:
        launch(kernel, arguments)
        check(driver.cuCtxSynchronize())
        return words(address, 1), words(int(place), 1), int(size)

    return look


def library(_place: Path) -> Check:
    """A library's kernel, launched as it is."""
    loaded = check(driver.cuLibraryLoadData(PTX + b"\0", [], [], 0, [], [], 0))
    kernel = check(driver.cuLibraryGetKernel(loaded, b"add"))
    address = device_memory()
    arguments = Arguments(ctypes.c_uint64(address), ctypes.c_uint32(2))

    def look() -> Any:
        offset, size = check(driver.cuKernelGetParamInfo(kernel, 1))
        launch(driver.CUfunction(int(kernel)), arguments, threads=2)
        check(driver.cuCtxSynchronize())
        return words(address, 3), int(offset), int(size)

    return look


def cooperative(_place: Path) -> Check:
    kernel, address = function(b"add"), device_memory()
    arguments = Arguments(ctypes.c_uint64(address), ctypes.c_uint32(4))
    stream = check(driver.cuStreamCreate(0))

    def look() -> Any:
        check(driver.cuLaunchCooperativeKernel(kernel, 1, 1, 1, 4, 1, 1, 0, stream, arguments.address))
        check(driver.cuStreamSynchronize(stream))
        return words(address)

    return look


def pinned(_place: Path) -> Check:
    """Mapped into the device; each side changes its half, and both see both."""
    host = int(check(driver.cuMemHostAlloc(SIZE, 1 | 2)))
    ctypes.memset(host, 0, SIZE)
    return _both_views(host, int(check(driver.cuMemHostGetDevicePointer(host, 0))))


def _both_views(host: int, device: int) -> Check:
    arguments = Arguments(ctypes.c_uint64(device), ctypes.c_uint32(6))
    kernel = function(b"add")
    count = [0]

    def look() -> Any:
        count[0] += 1
        launch(kernel, arguments, threads=2)
        check(driver.cuCtxSynchronize())
        ctypes.c_uint32.from_address(host + 8).value += count[0]
        seen = struct.unpack("3I", ctypes.string_at(host, 12))
        return seen, words(device, 3), check(driver.cuMemHostGetFlags(host))

    return look


def registered(_place: Path) -> Check:
    """A part of a mapping that begins and ends within pages."""
    area = mmap.mmap(-1, 4 * SIZE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(area)) + 4096 + 512
    check(driver.cuMemHostRegister(start, SIZE, 2))
    look = _both_views(start, int(check(driver.cuMemHostGetDevicePointer(start, 0))))

    def and_again() -> Any:
        return look(), driver.cuMemHostRegister(start, SIZE, 2)[0].name, len(area)

    return and_again


def registered_file(_place: Path) -> Check:
    """In memory: of a file on ext4, the driver refuses a shared mapping (INVALID_VALUE with Linux 6.18)."""
    path = Path(f"/dev/shm/torpor-registered-{uuid.uuid4().hex}")
    AFTERWARDS.append(path.unlink)
    path.write_bytes(bytes(SIZE))
    with path.open("r+b") as file:
        area = mmap.mmap(file.fileno(), SIZE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(area))
    check(driver.cuMemHostRegister(start, SIZE, 2))
    look = _both_views(start, int(check(driver.cuMemHostGetDevicePointer(start, 0))))
    return lambda: (look(), path.read_bytes()[:12].hex(), len(area))


def unregistered(_place: Path) -> Check:
    """Registered before, given back after: once, and not twice."""
    area = mmap.mmap(-1, 2 * SIZE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(area)) + 4096
    check(driver.cuMemHostRegister(start, SIZE, 0))

    def look() -> Any:
        found = [driver.cuMemHostUnregister(start)[0].name for _time in range(2)]
        check(driver.cuMemHostRegister(start, SIZE, 0))
        return found, len(area)

    return look


def _in_context(kind: Callable[[Path], Check]) -> Callable[[Path], Check]:
    def made(place: Path) -> Check:
        context()
        return kind(place)

    return made


KINDS = {
    one.__name__: _in_context(one)
    for one in (
        priorities,
        events,
        graph,
        user_object,
        globals_of_a_module,
        library,
        cooperative,
        pinned,
        registered,
        registered_file,
        unregistered,
    )
}
