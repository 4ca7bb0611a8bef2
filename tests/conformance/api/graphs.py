"""Graphs: nodes of every kind, their update, clones, edges."""

from __future__ import annotations

import ctypes
from typing import Any

from cuda.bindings import driver

from tests.conformance import gpu
from tests.conformance.api.programs import Notes, program
from tests.conformance.api.sources import SMALL

U32 = ctypes.c_uint32


def kernel(function: Any, *values: Any) -> driver.CUDA_KERNEL_NODE_PARAMS:
    wanted = driver.CUDA_KERNEL_NODE_PARAMS()
    wanted.func = function
    wanted.gridDimX = wanted.gridDimY = wanted.gridDimZ = wanted.blockDimX = wanted.blockDimY = wanted.blockDimZ = 1
    wanted.kernelParams = gpu.parameters(*values)
    return wanted


def fill(address: int, value: int, width: int, size: int = 1) -> driver.CUDA_MEMSET_NODE_PARAMS:
    wanted = driver.CUDA_MEMSET_NODE_PARAMS()
    wanted.dst, wanted.value, wanted.elementSize, wanted.width, wanted.height = address, value, size, width, 1
    return wanted


def copy(source: int, target: int, size: int) -> driver.CUDA_MEMCPY3D:
    wanted = driver.CUDA_MEMCPY3D()
    wanted.srcMemoryType = wanted.dstMemoryType = driver.CUmemorytype.CU_MEMORYTYPE_DEVICE
    wanted.srcDevice, wanted.dstDevice = source, target
    wanted.WidthInBytes, wanted.Height, wanted.Depth = size, 1, 1
    return wanted


def run(graph: Any) -> Any:
    launched = gpu.call("cuGraphInstantiate", graph, 0)
    again(launched)
    return launched


def again(launched: Any) -> None:
    gpu.call("cuGraphLaunch", launched, 0)
    gpu.call("cuStreamSynchronize", 0)


@program
def nodes_of_many_kinds(note: Notes) -> None:
    module, memory = gpu.module(SMALL), gpu.Memory(bytes(32))
    here, graph = gpu.call("cuCtxGetCurrent"), gpu.call("cuGraphCreate", 0)
    first = gpu.call("cuGraphAddMemsetNode", graph, [], 0, fill(memory.address, 3, 8), here)
    second = gpu.call("cuGraphAddKernelNode", graph, [first], 1, kernel(gpu.function(module, "add"), memory, U32(5)))
    third = gpu.call("cuGraphAddMemcpyNode", graph, [second], 1, copy(memory.address, memory.address + 16, 8), here)
    empty = gpu.call("cuGraphAddEmptyNode", graph, [third], 1)
    event = gpu.call("cuEventCreate", 2)
    record = gpu.call("cuGraphAddEventRecordNode", graph, [empty], 1, event)
    wait = gpu.call("cuGraphAddEventWaitNode", graph, [record], 1, event)
    called: list[int] = []
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda data: called.append(data or 0))
    host = driver.CUDA_HOST_NODE_PARAMS()
    host.fn = driver.CUhostFn(ctypes.cast(function, ctypes.c_void_p).value)
    host.userData = 42
    last = gpu.call("cuGraphAddHostNode", graph, [wait], 1, host)
    inner = gpu.call("cuGraphCreate", 0)
    gpu.call("cuGraphAddMemsetNode", inner, [], 0, fill(memory.address + 24, 0x55667788, 2, 4), here)
    child = gpu.call("cuGraphAddChildGraphNode", graph, [last], 1, inner)
    every = (first, second, third, empty, record, wait, last, child)
    note("kinds", [int(gpu.call("cuGraphNodeGetType", node)) for node in every])
    run(graph)
    note("memory", memory.read())
    note("called", called)
    note("roots", int(gpu.call("cuGraphGetRootNodes", graph, 0)[1]))
    note("of the child", int(gpu.call("cuGraphGetNodes", gpu.call("cuGraphChildGraphNodeGetGraph", child), 0)[1]))


@program
def nodes_for_memory(note: Notes) -> None:
    graph, here = gpu.call("cuGraphCreate", 0), gpu.call("cuCtxGetCurrent")
    wanted = driver.CUDA_MEM_ALLOC_NODE_PARAMS()
    wanted.poolProps.allocType = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    wanted.poolProps.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    wanted.bytesize = 4096
    memory = gpu.Memory(bytes(8))
    got = driver.cuGraphAddMemAllocNode(graph, [], 0, wanted)
    note("allocated", got[0].name)
    address = int(wanted.dptr)
    note("has an address", address != 0)
    filled = gpu.call("cuGraphAddMemsetNode", graph, [got[1]], 1, fill(address, 0x21, 8), here)
    copied = gpu.call("cuGraphAddMemcpyNode", graph, [filled], 1, copy(address, memory.address, 8), here)
    free = gpu.call("cuGraphAddMemFreeNode", graph, [copied], 1, address)
    note("kinds", [int(gpu.call("cuGraphNodeGetType", node)) for node in (got[1], free)])
    launched = run(graph)
    again(launched)
    note("memory", memory.read())
    note.status("cuGraphClone", graph, what="clone")
    note.status("cuGraphAddMemFreeNode", graph, [copied], 1, address, what="free twice")


@program
def changes_of_launched_nodes(note: Notes) -> None:
    module, memory = gpu.module(SMALL), gpu.Memory(bytes(16))
    here, graph = gpu.call("cuCtxGetCurrent"), gpu.call("cuGraphCreate", 0)
    store, add = gpu.function(module, "store"), gpu.function(module, "add")
    first = gpu.call("cuGraphAddKernelNode", graph, [], 0, kernel(store, memory, U32(1)))
    second = gpu.call("cuGraphAddMemsetNode", graph, [first], 1, fill(memory.address + 4, 2, 4), here)
    third = gpu.call("cuGraphAddMemcpyNode", graph, [second], 1, copy(memory.address, memory.address + 8, 8), here)
    launched = run(graph)
    note("first", memory.read())
    gpu.call("cuGraphExecKernelNodeSetParams", launched, first, kernel(add, memory, U32(0x100)))
    gpu.call("cuGraphExecMemsetNodeSetParams", launched, second, fill(memory.address + 4, 7, 2), here)
    again(launched)
    note("second", memory.read())
    other = copy(memory.address + 1, memory.address + 12, 2)
    note.status("cuGraphExecMemcpyNodeSetParams", launched, third, other, here)
    gpu.call("cuGraphNodeSetEnabled", launched, first, 0)
    note("enabled", int(gpu.call("cuGraphNodeGetEnabled", launched, first)))
    again(launched)
    note("third", memory.read())
    note.status("cuGraphNodeSetEnabled", launched, third, 0, what="switch off a copy")


@program
def whole_updates(note: Notes) -> None:
    module, memory = gpu.module(SMALL), gpu.Memory(bytes(16))
    here, store, add = gpu.call("cuCtxGetCurrent"), gpu.function(module, "store"), gpu.function(module, "add")

    def build(function: Any, value: int, filling: int, edges: bool = True) -> Any:
        graph = gpu.call("cuGraphCreate", 0)
        first = gpu.call("cuGraphAddKernelNode", graph, [], 0, kernel(function, memory, U32(value)))
        after = [first] if edges else []
        gpu.call("cuGraphAddMemsetNode", graph, after, len(after), fill(memory.address + 4, filling, 4), here)
        return graph

    launched = run(build(store, 5, 1))
    changes = {"values": build(store, 6, 2), "function": build(add, 6, 3), "edges": build(add, 1, 1, False)}
    for name, graph in changes.items():
        result, told = driver.cuGraphExecUpdate(launched, graph)
        note(name, [result.name, told and int(told.result)])
        again(launched)
        note("memory", memory.read())
    empty = gpu.call("cuGraphCreate", 0)
    result, told = driver.cuGraphExecUpdate(launched, empty)
    note("empty", [result.name, told and int(told.result)])


@program
def edges_and_clones(note: Notes) -> None:
    graph = gpu.call("cuGraphCreate", 0)
    a, b, c = (gpu.call("cuGraphAddEmptyNode", graph, [], 0) for _ in range(3))
    zero = [driver.CUgraphEdgeData()]
    gpu.call("cuGraphAddDependencies", graph, [a], [b], zero, 1)
    note.status("cuGraphAddDependencies", graph, [a], [b], zero, 1, what="again")
    note.status("cuGraphAddDependencies", graph, [a], [a], zero, 1, what="to itself")
    gpu.call("cuGraphAddDependencies", graph, [b], [c], zero, 1)
    note("edges", int(gpu.call("cuGraphGetEdges", graph, 0)[-1]))
    clone = gpu.call("cuGraphClone", graph)
    note("nodes of the clone", int(gpu.call("cuGraphGetNodes", clone, 0)[1]))
    twin = gpu.call("cuGraphNodeFindInClone", b, clone)
    note("kind of the twin", int(gpu.call("cuGraphNodeGetType", twin)))
    gpu.call("cuGraphAddDependencies", graph, [c], [a], zero, 1)
    note.status("cuGraphInstantiate", graph, 0, what="a circle")
    gpu.call("cuGraphRemoveDependencies", graph, [c], [a], zero, 1)
    note.status("cuGraphRemoveDependencies", graph, [c], [a], zero, 1, what="remove again")
    note.status("cuGraphDestroyNode", b)
    note("edges", int(gpu.call("cuGraphGetEdges", graph, 0)[-1]))
    note.status("cuGraphDestroy", graph)
    note.status("cuGraphInstantiate", gpu.call("cuGraphCreate", 0), 0, what="an empty graph")
    note.status("cuGraphCreate", 1, what="flags")


@program
def memory_operations(note: Notes) -> None:
    memory, graph = gpu.Memory(bytes(16)), gpu.call("cuGraphCreate", 0)
    operation = driver.CUstreamBatchMemOpParams()
    operation.operation = driver.CUstreamBatchMemOpType.CU_STREAM_MEM_OP_WRITE_VALUE_32
    operation.writeValue.operation = driver.CUstreamBatchMemOpType.CU_STREAM_MEM_OP_WRITE_VALUE_32
    operation.writeValue.address, operation.writeValue.value = memory.address + 4, 0xCAFE
    wanted = driver.CUDA_BATCH_MEM_OP_NODE_PARAMS()
    wanted.ctx, wanted.count, wanted.paramArray, wanted.flags = gpu.call("cuCtxGetCurrent"), 1, [operation], 0
    node = gpu.call("cuGraphAddBatchMemOpNode", graph, [], 0, wanted)
    note("kind", int(gpu.call("cuGraphNodeGetType", node)))
    run(graph)
    note("memory", memory.read())
