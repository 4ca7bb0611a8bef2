"""Streams, events, host functions, waits for values."""

from __future__ import annotations

import ctypes

from cuda.bindings import driver

from tests.conformance import gpu
from tests.conformance.api.programs import Notes, program
from tests.conformance.api.sources import SMALL

U32 = ctypes.c_uint32


@program
def stream_properties(note: Notes) -> None:
    plain, free = gpu.call("cuStreamCreate", 0), gpu.call("cuStreamCreate", 1)
    note("flags", [int(gpu.call("cuStreamGetFlags", each)) for each in (plain, free, 0, 1, 2)])
    least, greatest = gpu.call("cuCtxGetStreamPriorityRange")
    note("priorities", [int(least), int(greatest)])
    for wanted in (0, -1, -100, 7):
        stream = gpu.call("cuStreamCreateWithPriority", 1, wanted)
        note(f"priority {wanted}", int(gpu.call("cuStreamGetPriority", stream)))
        gpu.call("cuStreamDestroy", stream)
    note.status("cuStreamCreate", 2, what="unknown flag")
    note("query", [gpu.status("cuStreamQuery", each) for each in (plain, free, 0)])
    note("different ids", gpu.call("cuStreamGetId", plain) != gpu.call("cuStreamGetId", free))
    note("device", int(gpu.call("cuStreamGetDevice", free)))
    note("destroyed", [gpu.status("cuStreamDestroy", each) for each in (plain, free)])
    note.status("cuStreamDestroy", 0, what="destroy the default stream")


@program
def events(note: Notes) -> None:
    stream, other = gpu.call("cuStreamCreate", 1), gpu.call("cuStreamCreate", 1)
    a, b, untimed = gpu.call("cuEventCreate", 0), gpu.call("cuEventCreate", 1), gpu.call("cuEventCreate", 2)
    note.status("cuEventQuery", a, what="never recorded")
    note.status("cuEventSynchronize", a, what="wait for never recorded")
    note.status("cuEventElapsedTime", a, b, what="elapsed, never recorded")
    note.status("cuStreamWaitEvent", other, a, 0, what="stream waits for never recorded")
    for event in (a, b, untimed):
        gpu.call("cuEventRecord", event, stream)
    gpu.call("cuStreamSynchronize", stream)
    note("query", [gpu.status("cuEventQuery", event) for event in (a, b, untimed)])
    note("elapsed", 0 <= gpu.call("cuEventElapsedTime", a, b) < 1000)
    note.status("cuEventElapsedTime", a, untimed, what="elapsed without time")
    for flags in (4, 6, 8, 1 << 20):
        note.status("cuEventCreate", flags, what=f"flags {flags}")
    note.status("cuEventDestroy", a)


@program
def order_between_streams(note: Notes) -> None:
    module, memory = gpu.module(SMALL), gpu.Memory(bytes(8))
    add, store, wait = (gpu.function(module, name) for name in ("add", "store", "wait_for"))
    flag = int(gpu.call("cuMemHostAlloc", 4, 0))
    ctypes.memset(flag, 0, 4)
    one, two = gpu.call("cuStreamCreate", 1), gpu.call("cuStreamCreate", 1)
    event = gpu.call("cuEventCreate", 2)
    gpu.launch(wait, flag, stream=one, wait=False)
    gpu.launch(store, memory, U32(5), stream=one, wait=False)
    gpu.call("cuEventRecord", event, one)
    gpu.call("cuStreamWaitEvent", two, event, 0)
    gpu.launch(add, memory, U32(10), stream=two, wait=False)
    note("busy", [gpu.status("cuStreamQuery", each) for each in (one, two)] + [gpu.status("cuEventQuery", event)])
    note.status("cuEventElapsedTime", event, event, what="elapsed of an untimed event")
    ctypes.memset(flag, 1, 4)
    gpu.call("cuStreamSynchronize", two)
    note("done", [gpu.status("cuStreamQuery", each) for each in (one, two)])
    note("memory", memory.read())


@program
def default_stream_waits(note: Notes) -> None:
    module, memory = gpu.module(SMALL), gpu.Memory(bytes(8))
    store, wait = gpu.function(module, "store"), gpu.function(module, "wait_for")
    flag = int(gpu.call("cuMemHostAlloc", 4, 0))
    ctypes.memset(flag, 0, 4)
    blocking, free = gpu.call("cuStreamCreate", 0), gpu.call("cuStreamCreate", 1)
    gpu.launch(wait, flag, stream=blocking, wait=False)
    gpu.launch(store, memory, U32(1), stream=0, wait=False)
    gpu.launch(store, memory.address + 4, U32(2), stream=free)
    note("queries", [gpu.status("cuStreamQuery", each) for each in (blocking, 0, free)])
    ctypes.memset(flag, 1, 4)
    gpu.call("cuCtxSynchronize")
    note("memory", memory.read())


@program
def host_functions(note: Notes) -> None:
    called: list[str] = []
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda data: called.append(f"function {data or 0}"))
    with_status = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)(
        lambda _stream, status, data: called.append(f"callback {status} {data or 0}")
    )
    stream = gpu.call("cuStreamCreate", 1)
    host, callback = driver.CUhostFn(), driver.CUstreamCallback()
    host = driver.CUhostFn(ctypes.cast(function, ctypes.c_void_p).value)
    callback = driver.CUstreamCallback(ctypes.cast(with_status, ctypes.c_void_p).value)
    gpu.call("cuLaunchHostFunc", stream, host, 5)
    gpu.call("cuStreamAddCallback", stream, callback, 6, 0)
    gpu.call("cuLaunchHostFunc", stream, host, 7)
    gpu.call("cuStreamSynchronize", stream)
    note("called", called)
    note.status("cuStreamAddCallback", stream, callback, 0, 3, what="unknown flag")


@program
def values_waited_for(note: Notes) -> None:
    host = int(gpu.call("cuMemHostAlloc", 64, 0))
    ctypes.memset(host, 0, 64)
    stream, memory = gpu.call("cuStreamCreate", 1), gpu.Memory(bytes(16))
    equal, at_least = driver.CUstreamWaitValue_flags.CU_STREAM_WAIT_VALUE_EQ, 0
    gpu.call("cuStreamWaitValue32", stream, host, 3, equal.value)
    gpu.call("cuStreamWriteValue32", stream, memory.address, 0x11223344, 0)
    gpu.call("cuStreamWriteValue64", stream, memory.address + 8, 0x1122334455667788, 0)
    gpu.call("cuStreamWaitValue32", stream, host + 4, 10, at_least)
    note.status("cuStreamQuery", stream, what="waits")
    ctypes.memset(host, 3, 1)
    ctypes.memset(host + 4, 12, 1)
    gpu.call("cuStreamSynchronize", stream)
    note("memory", memory.read())
    note.status("cuStreamWaitValue32", stream, host + 1, 0, 0, what="misaligned")
    note.status("cuStreamWriteValue32", stream, 64, 0, 0, what="nowhere")


@program
def capture(note: Notes) -> None:
    module, memory = gpu.module(SMALL), gpu.Memory(bytes(8))
    add = gpu.function(module, "add")
    one, two, event = gpu.call("cuStreamCreate", 1), gpu.call("cuStreamCreate", 1), gpu.call("cuEventCreate", 2)
    relaxed = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    gpu.call("cuStreamBeginCapture", one, relaxed)
    note.status("cuStreamBeginCapture", one, relaxed, what="begin again")
    gpu.launch(add, memory, U32(1), stream=one, wait=False)
    gpu.call("cuEventRecord", event, one)
    gpu.call("cuStreamWaitEvent", two, event, 0)
    gpu.launch(add, memory.address + 4, U32(2), stream=two, wait=False)
    note("capturing", [int(gpu.call("cuStreamIsCapturing", each)) for each in (one, two)])
    note.status("cuStreamQuery", one, what="query while capturing")
    note.status("cuStreamEndCapture", one, what="end not joined")
    gpu.call("cuStreamBeginCapture", one, relaxed)
    gpu.launch(add, memory, U32(1), stream=one, wait=False)
    gpu.call("cuEventRecord", event, one)
    gpu.call("cuStreamWaitEvent", two, event, 0)
    gpu.launch(add, memory.address + 4, U32(2), stream=two, wait=False)
    gpu.call("cuEventRecord", event, two)
    gpu.call("cuStreamWaitEvent", one, event, 0)
    gpu.call("cuMemsetD8Async", memory.address + 3, 9, 1, one)
    graph = gpu.call("cuStreamEndCapture", one)
    nodes, count = gpu.call("cuGraphGetNodes", graph, 10)
    note("nodes", [int(count), [int(gpu.call("cuGraphNodeGetType", node)) for node in nodes[:count]]])
    launched = gpu.call("cuGraphInstantiate", graph, 0)
    note("before", memory.read())
    for _ in range(3):
        gpu.call("cuGraphLaunch", launched, one)
    gpu.call("cuStreamSynchronize", one)
    note("after", memory.read())
    note.status("cuStreamEndCapture", one, what="end without begin")
    note.status("cuStreamBeginCapture", 0, relaxed, what="capture the default stream")


@program
def forbidden_while_capturing(note: Notes) -> None:
    modes = driver.CUstreamCaptureMode
    for mode in (modes.CU_STREAM_CAPTURE_MODE_GLOBAL, modes.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                 modes.CU_STREAM_CAPTURE_MODE_RELAXED):  # fmt: skip
        stream = gpu.call("cuStreamCreate", 1)
        gpu.call("cuStreamBeginCapture", stream, mode)
        note.status("cuMemAlloc", 64, what=f"{mode.name} cuMemAlloc")
        note(f"{mode.name} capturing", int(gpu.call("cuStreamIsCapturing", stream)))
        note.status("cuStreamSynchronize", stream, what=f"{mode.name} synchronise")
        note.status("cuStreamEndCapture", stream, what=f"{mode.name} end")
        gpu.call("cuStreamDestroy", stream)
