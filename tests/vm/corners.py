"""Small programs in which deferring is dangerous; each tells what its calls returned.

A call of `cuMemsetD16Async` stands for a driver that is slow to take work: with `TORPOR_SIM_FAULT` set to `hang:FILE`
for it, what is made after it stays in the queue until the file exists.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from cuda.bindings import driver

from tests.conformance import gpu

SOURCE = """
extern "C" __global__ void none() {}
extern "C" __global__ void put(unsigned* to, unsigned one, unsigned other) { *to = one * 100 + other; }
extern "C" __global__ void shared() { extern __shared__ unsigned part[]; part[threadIdx.x] = 1; }
"""
GLOBAL = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL
SHARED_BYTES = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
LIMIT = 60000


class Slow:
    """Keeps the driver from taking more, until `release`."""

    def __init__(self) -> None:
        self.memory = int(gpu.call("cuMemAlloc", 64))
        gpu.call("cuMemsetD8Async", self.memory, 0, 64, 0)

    def hold(self) -> None:
        assert gpu.status("cuMemsetD16Async", self.memory, 0, 8, 0) == "SUCCESS"

    def release(self) -> None:
        if name := os.environ.get("TORPOR_TEST_HELD"):
            Path(name).touch()

    def release_soon(self) -> None:
        """While the main thread waits for the queue, which is what it has to do."""
        threading.Timer(0.3, self.release).start()


def launch(function: Any, stream: Any = 0, shared: int = 0) -> str:
    return gpu.status("cuLaunchKernel", function, 1, 1, 1, 32, 1, 1, shared, stream, 0, 0)


def event_node_of_a_queued_graph() -> list[str]:
    """A graph's event is exchanged after a launch: that launch still records the old one."""
    events = [gpu.call("cuEventCreate", 0) for _ in range(3)]
    graph = gpu.call("cuGraphCreate", 0)
    node = gpu.call("cuGraphAddEventRecordNode", graph, None, 0, events[0])
    ready = gpu.call("cuGraphInstantiate", graph, 0)
    said = [gpu.status("cuGraphLaunch", ready, 0)]
    said.append(gpu.status("cuGraphExecEventRecordNodeSetEvent", ready, node, events[1]))
    slow = Slow()
    slow.hold()
    said.append(gpu.status("cuGraphLaunch", ready, 0))
    slow.release_soon()
    said.append(gpu.status("cuGraphExecEventRecordNodeSetEvent", ready, node, events[2]))
    gpu.call("cuCtxSynchronize")
    return [*said, *(gpu.status("cuEventElapsedTime", event, event) for event in events)]


def event_of_a_capture() -> list[str]:
    """An event that a capture has recorded last cannot be waited for outside of it."""
    streams = [gpu.call("cuStreamCreate", 1) for _ in range(2)]
    event = gpu.call("cuEventCreate", 2)

    def hand() -> list[str]:
        return [gpu.status("cuEventRecord", event, streams[0]), gpu.status("cuStreamWaitEvent", streams[1], event, 0)]

    said = [*hand(), *hand(), *hand()]
    gpu.call("cuStreamBeginCapture", streams[0], GLOBAL)
    said.append(gpu.status("cuEventRecord", event, streams[0]))
    said.append(gpu.status("cuStreamEndCapture", streams[0]))
    said.append(gpu.status("cuStreamWaitEvent", streams[1], event, 0))
    said.append(gpu.status("cuCtxSynchronize"))
    return [*said, *hand(), *hand()]


def graph_that_allocates() -> list[str]:
    """Memory that a graph allocated has to be freed before it is launched again."""
    stream = gpu.call("cuStreamCreate", 1)
    gpu.call("cuStreamBeginCapture", stream, GLOBAL)
    memory = gpu.call("cuMemAllocAsync", 4096, stream)
    ready = gpu.call("cuGraphInstantiate", gpu.call("cuStreamEndCapture", stream), 0)
    said = []
    for _ in range(3):
        said.append(gpu.status("cuGraphLaunch", ready, stream))
        said.append(gpu.status("cuMemFreeAsync", memory, stream))
        said.append(gpu.status("cuStreamSynchronize", stream))
    said += [gpu.status("cuGraphLaunch", ready, stream) for _ in range(3)]
    return [*said, gpu.status("cuCtxSynchronize")]


def failure_elsewhere() -> list[str]:
    """What went wrong in one context is no news in another."""
    first = gpu.call("cuCtxGetCurrent")
    second = gpu.call("cuCtxCreate", None, 0, gpu.start())
    gpu.call("cuCtxSetCurrent", first)
    slow = Slow()
    slow.hold()  # which fails
    gpu.call("cuCtxSetCurrent", second)
    memory = gpu.status("cuMemAlloc", 64)
    said = [memory, gpu.status("cuCtxSynchronize"), gpu.status("cuStreamQuery", 0)]
    gpu.call("cuCtxSetCurrent", first)
    late = gpu.status("cuCtxSynchronize")
    assert late == ("ERROR_INVALID_VALUE" if "TORPOR_VM" in os.environ else "SUCCESS"), late
    gpu.call("cuCtxSetCurrent", second)
    said += [gpu.status("cuCtxSynchronize")]
    gpu.call("cuCtxDestroy", second)
    gpu.call("cuCtxSetCurrent", first)
    return [*said, gpu.status("cuCtxSynchronize")]


def parameters_in_a_buffer() -> list[str]:
    """They are copied, and a buffer of another size than the kernel's is for the driver to judge."""
    function = gpu.function(gpu.module(SOURCE), "put")
    memory = int(gpu.call("cuMemAlloc", 64))
    gpu.call("cuMemsetD32", memory, 0, 16)
    buffer, size = (ctypes.c_uint64 * 2)(), ctypes.c_size_t()
    pointer, bytes_, end = 1, 2, 0  # CU_LAUNCH_PARAM_…
    extra = (ctypes.c_void_p * 5)(pointer, ctypes.addressof(buffer), bytes_, ctypes.addressof(size), end)
    said = []
    for place, wanted in enumerate((16, 16, 12, 16, 0, 16, 17, 24, 16)):
        buffer[:] = [memory + 4 * place, (place + 7) << 32 | (place + 3)]
        size.value = wanted
        said.append(gpu.status("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, 0, 0, ctypes.addressof(extra)))
        buffer[:] = [0, 0]
    said.append(gpu.status("cuCtxSynchronize"))
    return [*said, gpu.read(memory, 64).hex()]


def contexts_by_turns() -> list[str]:
    """Work of two contexts that waits in one queue: each kernel is its own context's, and no other one takes it."""
    contexts = [gpu.call("cuCtxGetCurrent"), gpu.call("cuCtxCreate", None, 0, gpu.start())]
    functions = []
    for context in contexts:
        gpu.call("cuCtxSetCurrent", context)
        functions.append(gpu.function(gpu.module(SOURCE), "none"))
        launch(functions[-1])
    gpu.call("cuCtxSetCurrent", contexts[0])
    slow = Slow()
    slow.hold()
    said = []
    for _ in range(3):
        for context, function in zip(contexts, functions, strict=True):
            gpu.call("cuCtxSetCurrent", context)
            said.append(launch(function))
    slow.release()
    for context in contexts:
        gpu.call("cuCtxSetCurrent", context)
        said.append(gpu.status("cuCtxSynchronize"))
    return said


def other_device() -> list[str]:
    """A device that takes no more work is no hindrance to another one, which even sets it going again."""
    slow = Slow()
    said: list[str] = []

    def work() -> None:
        gpu.call("cuCtxSetCurrent", gpu.call("cuDevicePrimaryCtxRetain", gpu.call("cuDeviceGet", 1)))
        memory = int(gpu.call("cuMemAlloc", 64))
        ready.set()
        time.sleep(0.3)  # the main thread may be inside of the call that is held, and say nothing more
        said.extend(gpu.status("cuMemsetD8Async", memory, 1, 64, 0) for _ in range(3))
        said.append(gpu.status("cuCtxSynchronize"))
        slow.release()

    ready = threading.Event()
    thread = threading.Thread(target=work)
    thread.start()
    ready.wait()
    slow.hold()
    thread.join()
    return [*said, gpu.status("cuCtxSynchronize")]


def kernel_on_two_devices() -> list[str]:
    """A library's kernel, named in place of a function, is another function in each context."""
    library = gpu.call("cuLibraryLoadData", gpu.ptx(SOURCE), None, None, 0, None, None, 0)
    kernel = driver.CUfunction(int(gpu.call("cuLibraryGetKernel", library, b"shared")))
    said = []
    for device in (0, 1, 0, 1):
        gpu.call("cuCtxSetCurrent", gpu.call("cuDevicePrimaryCtxRetain", gpu.call("cuDeviceGet", device)))
        said.append(gpu.status("cuFuncSetAttribute", kernel, SHARED_BYTES, LIMIT))
        said += [launch(kernel, 0, LIMIT), gpu.status("cuCtxSynchronize")]
    said.append(gpu.status("cuKernelSetAttribute", SHARED_BYTES, LIMIT, int(kernel), -1))
    return said


def kernel_by_two_names() -> list[str]:
    """A kernel and its function in this context share their attributes."""
    library = gpu.call("cuLibraryLoadData", gpu.ptx(SOURCE), None, None, 0, None, None, 0)
    kernel = gpu.call("cuLibraryGetKernel", library, b"shared")
    function, as_function = gpu.call("cuKernelGetFunction", kernel), driver.CUfunction(int(kernel))
    said = [launch(function, 0, 128)]
    for _ in range(2):
        said.append(gpu.status("cuFuncSetAttribute", function, SHARED_BYTES, LIMIT))
        said.append(gpu.status("cuFuncSetAttribute", as_function, SHARED_BYTES, 1024))
        said.append(gpu.status("cuFuncSetAttribute", function, SHARED_BYTES, LIMIT))
        said += [launch(function, 0, LIMIT), launch(as_function, 0, LIMIT)]
        said.append(str(gpu.call("cuFuncGetAttribute", SHARED_BYTES, function)))
    return [*said, gpu.status("cuCtxSynchronize")]


def fork_handlers() -> list[str]:
    """A program's own handlers of fork may call the driver, before and after ours."""
    said: list[str] = []
    function = gpu.function(gpu.module(SOURCE), "none")
    handler = ctypes.CFUNCTYPE(None)

    def around(name: str) -> Any:
        return handler(lambda: said.append(f"{name} {launch(function)} {gpu.status('cuCtxSynchronize')}"))

    kept = [around("before"), around("after")]
    libc = ctypes.CDLL(None)
    libc.__register_atfork(kept[0], kept[1], None, None)
    for _ in range(3):
        said.append(launch(function))  # from the first one on there is a queue, and its handlers come later
    for _ in range(2):
        said.append(launch(function))
        child = os.fork()
        if child == 0:
            os._exit(7)
        said.append(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))
    return said


def fork_sets_the_driver_going() -> list[str]:
    """A fork need not wait for a driver that takes work only after it."""
    slow = Slow()
    slow.hold()
    said = [gpu.status("cuMemsetD8Async", slow.memory + 32, 3, 32, 0)]
    child = os.fork()
    if child == 0:
        os._exit(7)
    slow.release()
    said.append(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))
    said.append(gpu.status("cuCtxSynchronize"))
    return [*said, gpu.read(slow.memory, 64).hex()]


def fork_waits_for_the_queue() -> list[str]:
    """Or the child might find the driver as a thread of ours had just got hold of it."""
    slow = Slow()
    slow.hold()
    held = os.environ["TORPOR_TEST_HELD"]
    with subprocess.Popen(["sh", "-c", 'sleep 0.3; exec touch "$0"', held]):
        child = os.fork()
        if child == 0:
            os._exit(7 if Path(held).exists() else 8)
        said = [str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))]
    return [*said, gpu.status("cuCtxSynchronize")]


def calls_in_callbacks() -> list[str]:
    """A host function may not call the driver, and is told so at the call."""
    function = gpu.function(gpu.module(SOURCE), "none")
    said = [launch(function) for _ in range(3)]

    def body(_data: Any) -> None:
        said.append(launch(function))
        said.append(gpu.status("cuCtxGetCurrent"))

    hosted = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(body)
    pointer = driver.CUhostFn(ctypes.cast(hosted, ctypes.c_void_p).value)
    gpu.call("cuLaunchHostFunc", 0, pointer, 0)
    gpu.call("cuCtxSynchronize")
    return said


def device_that_is_gone() -> list[str]:
    """A card that fell off the bus has no memory to give either."""
    memory = int(gpu.call("cuMemAlloc", 4096))
    gpu.call("cuCtxSynchronize")
    said = [gpu.status("cuMemsetD16Async", memory, 0, 8, 0), gpu.status("cuCtxSynchronize")]
    return [*said, gpu.status("cuMemAlloc", 4096), gpu.status("cuMemAlloc", 4 << 20), gpu.status("cuCtxGetDevice")]


def event_between_processes() -> list[str]:
    """What this process has recorded is recorded for another one that is told so."""
    event = gpu.call("cuEventCreate", 2 | 4)
    stream = gpu.call("cuStreamCreate", 1)
    gpu.call("cuEventRecord", event, stream)
    handle = ctypes.string_at(int(gpu.call("cuIpcGetEventHandle", event).getPtr()), 64)
    other = subprocess.Popen(
        [sys.executable, "-m", "tests.vm.corners", "other_process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={key: value for key, value in os.environ.items() if key != "TORPOR_SIM_FAULT"},
    )
    assert other.stdin and other.stdout
    print(handle.hex(), file=other.stdin, flush=True)
    said = [other.stdout.readline().strip()]
    word = gpu.call("cuMemHostAlloc", 4, 2)
    flag = ctypes.c_uint32.from_address(int(word))
    for _ in range(2):
        gpu.call("cuEventRecord", event, stream)  # proven by now, if ever
    flag.value = 0
    gpu.call("cuStreamWaitValue32", stream, gpu.call("cuMemHostGetDevicePointer", word, 0), 1, 0)
    slow = Slow()
    slow.hold()
    slow.release_soon()
    said.append(gpu.status("cuEventRecord", event, stream))
    print("recorded", file=other.stdin, flush=True)
    said.append(other.stdout.readline().strip())
    flag.value = 1
    said.append(gpu.status("cuStreamSynchronize", stream))
    print("done", file=other.stdin, flush=True)
    said.append(other.stdout.readline().strip())
    assert other.wait() == 0
    return said


def other_process() -> None:
    """Tells whether an event of another process is complete, each time a line comes."""
    handle = driver.CUipcEventHandle()
    ctypes.memmove(int(handle.getPtr()), bytes.fromhex(input()), 64)
    event = gpu.call("cuIpcOpenEventHandle", handle)
    print("opened", flush=True)
    for _ in range(2):
        input()
        print(gpu.status("cuEventQuery", event), flush=True)


def main() -> None:
    gpu.start()
    said = globals()[sys.argv[1]]()
    if said is not None:
        json.dump(said, sys.stdout)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
