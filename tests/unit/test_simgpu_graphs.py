"""Graphs made node by node: their shape, launching, changing, memory. The statuses are an H200's."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tests.native.simgpu.kernels import function, load, u32, u64
from tests.native.simgpu.program import (
    INVALID_HANDLE,
    INVALID_VALUE,
    NOT_SUPPORTED,
    SUCCESS,
    Program,
    Start,
    given,
    out,
    programs_fixture,
)

start = programs_fixture()

UPDATE_FAILURE = 910
TOPOLOGY, NODE_TYPE = 2, 3


class Graph:
    """A graph of a program, an empty one to begin with."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.handle = program.number("cuGraphCreate", out(8), 0)

    def add(self, kind: str, *what: object, after: tuple[int, ...] = ()) -> int:
        before = given(b"".join(map(u64, after))) if after else None
        return self.program.number(f"cuGraphAdd{kind}", out(8), self.handle, before, len(after), *what)

    def fill(self, address: int, value: int, count: int = 1, after: tuple[int, ...] = ()) -> int:
        what = struct.pack("<QQIIQQ", address, 0, value, 1, count, 1)
        return self.add("MemsetNode", given(what), 0, after=after)

    def kernel(self, kernel: int, *parameters: bytes, after: tuple[int, ...] = ()) -> int:
        return self.add("KernelNode", self.params(kernel, *parameters), after=after)

    def params(self, kernel: int, *parameters: bytes, block: int = 1) -> dict[str, str]:
        addresses = b"".join(u64(self.program.place(each)) for each in parameters)
        array = self.program.place(addresses) if parameters else 0
        return given(struct.pack("<Q7I4xQQ", kernel, 1, 1, 1, block, 1, 1, 0, array, 0))

    def instantiate(self, flags: int = 0) -> int:
        return self.program.number("cuGraphInstantiateWithFlags", out(8), self.handle, flags)

    def run(self, flags: int = 0) -> int:
        launched = self.instantiate(flags)
        self.program.ok("cuGraphLaunch", launched, 0)
        self.program.ok("cuStreamSynchronize", 0)
        return launched

    def update(self, launched: int) -> tuple[int, int, bool]:
        """The status, the result, whether a node is named."""
        status, (info,) = self.program.call("cuGraphExecUpdate_v2", launched, self.handle, out(24))
        result, node = struct.unpack("<I4xQ8x", info)
        return status, result, node != 0


@pytest.fixture
def program(start: Start) -> Program:
    running = start()
    running.start_up()
    return running


def test_edges(program: Program) -> None:
    graph = Graph(program)
    first = graph.add("EmptyNode")
    second = graph.add("EmptyNode", after=(first,))
    twice = given(u64(first) * 2)
    assert program.status("cuGraphAddEmptyNode", out(8), graph.handle, twice, 2) == INVALID_VALUE
    one, two = given(u64(first)), given(u64(second))
    add, remove = "cuGraphAddDependencies", "cuGraphRemoveDependencies"
    assert program.status(add, graph.handle, one, one, 1) == INVALID_VALUE
    assert program.status(add, graph.handle, one, two, 1) == INVALID_VALUE  # there already
    assert program.status(add, graph.handle, two, one, 1) == SUCCESS  # a circle
    assert program.status("cuGraphInstantiateWithFlags", out(8), graph.handle, 0) == INVALID_VALUE
    assert program.status(remove, graph.handle, two, one, 1) == SUCCESS
    assert program.status(remove, graph.handle, two, one, 1) == INVALID_VALUE
    graph.run()
    nodes, count = program.ok("cuGraphGetNodes", graph.handle, out(24), given(u64(3)))[0], 2
    assert nodes == u64(first) + u64(second) + bytes(8) and count == 2
    assert program.status("cuGraphGetNodes", graph.handle, None, None) == INVALID_VALUE
    assert program.ok("cuGraphNodeGetDependencies", second, out(8), given(u64(1)))[0] == u64(first)
    assert program.ok("cuGraphNodeGetDependentNodes", first, out(8), given(u64(1)))[0] == u64(second)
    program.ok("cuGraphDestroyNode", first)
    assert program.status("cuGraphNodeGetType", first, out(4)) == INVALID_VALUE
    assert program.number("cuGraphGetRootNodes", graph.handle, None, out(8)) == 1


def test_nodes_run_in_the_order_of_their_edges(program: Program) -> None:
    memory = program.allocate(16)
    kernel = function(program, load(program), "add_counter")
    graph = Graph(program)
    last = graph.fill(memory, 9)
    first = graph.fill(memory, 1, 16)
    middle = graph.kernel(kernel, u64(memory + 4), after=(first,))
    program.ok("cuGraphAddDependencies", graph.handle, given(u64(middle)), given(u64(last)), 1)
    call = graph.add("HostNode", given(u64(callback(program, 4)) + u64(0)), after=(last,))
    copy = struct.pack("<4QI4xQQQQQQ", 0, 0, 0, 0, 2, 0, memory, 0, 0, 0, 0)
    copy += struct.pack("<4QI4xQQQQQQ", 0, 0, 0, 0, 2, 0, memory + 12, 0, 0, 0, 0) + struct.pack("<3Q", 4, 1, 1)
    graph.add("MemcpyNode", given(copy), 0, after=(call,))
    graph.run()
    head = b"\t\1\1\1"
    assert program.read(memory, 16) == head + u32(0x01010101 + 7) + b"\1" * 4 + head
    assert program.python("called") == [4]


def callback(program: Program, number: int) -> int:
    """The address of a host function that notes the number."""
    keep = "(lambda c: (kept.append(c), ctypes.cast(c, ctypes.c_void_p).value)[1])"
    return int(program.python(f"{keep}(argument({{'callback': {number}}}, []))"))


def test_kernel_nodes_are_read_and_changed(program: Program) -> None:
    memory, module = program.allocate(4), load(program)
    store, required = function(program, module, "store"), function(program, module, "required")
    graph = Graph(program)
    node = graph.kernel(store, u64(memory), u32(5))
    add = "cuGraphAddKernelNode"
    assert program.status(add, out(8), graph.handle, None, 0, graph.params(store, u64(0), u32(0), block=2000)) == 1
    assert program.status(add, out(8), graph.handle, None, 0, graph.params(0)) == INVALID_HANDLE
    told = program.ok("cuGraphKernelNodeGetParams", node, out(56))[0]
    handle, *shape = struct.unpack("<Q7I", told[:36])
    assert (handle, shape) == (store, [1, 1, 1, 1, 1, 1, 0])
    launched = graph.run()
    assert program.read(memory, 4) == u32(5)
    program.ok("cuGraphExecKernelNodeSetParams", launched, node, graph.params(store, u64(memory), u32(6)))
    program.ok("cuGraphLaunch", launched, 0)
    assert program.read(memory, 4) == u32(6)
    program.ok("cuGraphNodeSetEnabled", launched, node, 0)
    program.write(memory, u32(1))
    program.ok("cuGraphLaunch", launched, 0)
    assert program.read(memory, 4) == u32(1)
    other = Graph(program)
    other.add("KernelNode", other.params(required, block=32))
    assert other.update(launched) == (SUCCESS, 0, False)  # another function of the same context


def test_updates_keep_to_the_shape(program: Program) -> None:
    memory = program.allocate(4)
    graph, changed, kind, none = (Graph(program) for _ in range(4))
    graph.fill(memory, 1)
    launched = graph.run()
    changed.fill(memory + 1, 2)
    assert changed.update(launched) == (SUCCESS, 0, False)
    program.ok("cuGraphLaunch", launched, 0)
    assert program.read(memory, 4) == b"\1\2\0\0"
    kind.add("EmptyNode")
    assert kind.update(launched) == (UPDATE_FAILURE, NODE_TYPE, True)
    assert none.update(launched) == (UPDATE_FAILURE, TOPOLOGY, False)


def test_clones_and_children(program: Program, tmp_path: Path) -> None:
    memory = program.allocate(4)
    inner, outer = Graph(program), Graph(program)
    node = inner.fill(memory, 1)
    child = outer.add("ChildGraphNode", inner.handle, after=(outer.fill(memory + 1, 2),))
    inner.fill(memory + 2, 3)  # too late for the copy in the outer graph
    clone = program.number("cuGraphClone", out(8), outer.handle)
    twin = program.number("cuGraphNodeFindInClone", out(8), child, clone)
    assert program.number("cuGraphNodeGetType", twin, out(4)) == 4
    copy = program.number("cuGraphChildGraphNodeGetGraph", child, out(8))
    assert program.status("cuGraphDestroy", copy) == INVALID_VALUE  # the node's
    within = program.number("cuGraphNodeFindInClone", out(8), node, copy)
    launched = outer.run()
    assert program.read(memory, 4) == b"\1\2\0\0"
    again = struct.pack("<QQIIQQ", memory + 3, 0, 7, 1, 1, 1)
    program.ok("cuGraphExecMemsetNodeSetParams", launched, within, given(again), 0)
    program.ok("cuGraphLaunch", launched, 0)
    assert program.read(memory, 4) == b"\1\2\0\7"
    drawing = tmp_path / "graph.dot"
    program.ok("cuGraphDebugDotPrint", outer.handle, given(str(drawing).encode() + b"\0"), 0)
    assert drawing.read_text().startswith("digraph") and "MEMSET" in drawing.read_text()
    for graph in (inner.handle, outer.handle, clone):
        program.ok("cuGraphDestroy", graph)
    assert program.status("cuGraphNodeGetType", within, out(4)) == INVALID_VALUE
    program.ok("cuGraphLaunch", launched, 0)


def test_memory_of_a_graph(program: Program) -> None:
    graph = Graph(program)
    wanted = struct.pack("<iiii", 1, 0, 1, 0).ljust(88, b"\0") + struct.pack("<QQQQ", 0, 0, 4096, 0)
    what = program.place(wanted)
    node = graph.add("MemAllocNode", what)
    address = struct.unpack("<Q", bytes.fromhex(program.python(f"peek({what} + 112, 8)")))[0]
    graph.fill(address, 3, 8, after=(node,))
    launched = graph.instantiate()
    for status in (SUCCESS, INVALID_VALUE):  # still taken the second time
        assert program.status("cuGraphLaunch", launched, 0) == status
    assert program.read(address, 8) == b"\3" * 8
    program.ok("cuMemFreeAsync", address, 0)
    program.ok("cuGraphLaunch", launched, 0)
    program.ok("cuMemFree_v2", address)
    refused = [
        program.status("cuGraphClone", out(8), graph.handle),
        program.status("cuGraphDestroyNode", node),
        program.status("cuGraphInstantiateWithFlags", out(8), graph.handle, 0),
    ]
    assert refused == [NOT_SUPPORTED] * 3
    free = program.free_memory()
    program.ok("cuGraphExecDestroy", launched)
    program.ok("cuGraphDestroy", graph.handle)
    assert program.free_memory() == free + 4096


def test_captured_allocations_are_freed_in_the_graph(program: Program) -> None:
    stream = program.number("cuStreamCreate", out(8), 1)
    program.ok("cuStreamBeginCapture_v2", stream, 0)
    address = program.number("cuMemAllocAsync", out(8), 64, stream)
    program.ok("cuMemsetD8Async", address, 1, 64, stream)
    program.ok("cuMemFreeAsync", address, stream)
    graph = program.number("cuStreamEndCapture", stream, out(8))
    assert program.number("cuGraphGetNodes", graph, None, out(8)) == 3
    launched = program.number("cuGraphInstantiateWithFlags", out(8), graph, 0)
    for _time in range(3):
        program.ok("cuGraphLaunch", launched, stream)
    program.ok("cuStreamSynchronize", stream)


def test_graphs_keep_objects_of_the_program(program: Program) -> None:
    graph = Graph(program)
    destroy = callback(program, 8)
    thing = program.number("cuUserObjectCreate", out(8), 0, destroy, 1, 1)
    program.ok("cuGraphRetainUserObject", graph.handle, thing, 1, 1)
    launched = graph.instantiate()
    program.ok("cuGraphDestroy", graph.handle)
    assert program.python("called") == []
    program.ok("cuGraphExecDestroy", launched)
    waiting = "[__import__('time').sleep(0.01) for _ in range(500) if not called] and called or called"
    assert program.python(waiting) == [8]
