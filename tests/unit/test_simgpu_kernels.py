"""Launches: what is refused, in which order they run, what a fault leaves behind, clients from PyPI."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tests.native.simgpu.kernels import TEXT, function, launch, load, u32, u64
from tests.native.simgpu.program import (
    CONTEXT_IS_DESTROYED,
    INVALID_HANDLE,
    INVALID_VALUE,
    NOT_READY,
    SUCCESS,
    Start,
    environment,
    given,
    out,
    programs_fixture,
)

start = programs_fixture()

OUT_OF_RESOURCES, TOO_LARGE, ILLEGAL_ADDRESS, LAUNCH_FAILED = 701, 720, 700, 719


def test_what_a_launch_may_ask_for(start: Start) -> None:
    program = start()
    program.start_up()
    module, target = load(program), program.allocate(4)
    store, bounded, required, shared = (
        function(program, module, name) for name in ("store", "bounded", "required", "shared")
    )

    def try_out(**how: object) -> int:
        return launch(program, store, u64(target), u32(5), **how)

    assert try_out() == SUCCESS
    assert launch(program, 0, u64(target), u32(5)) == INVALID_HANDLE
    shapes = [{"grid": (0, 1, 1)}, {"grid": (1, 65536, 1)}] + [
        {"block": block} for block in ((0, 1, 1), (1025, 1, 1), (64, 32, 1), (1, 1, 65))
    ]
    assert [try_out(**shape) for shape in shapes] == [INVALID_VALUE] * len(shapes)
    assert [launch(program, bounded, block=(n, 1, 1)) for n in (64, 65)] == [SUCCESS, INVALID_VALUE]
    assert [launch(program, required, block=(n, 1, 1)) for n in (32, 16, 33)] == [SUCCESS, INVALID_VALUE, INVALID_VALUE]
    assert [launch(program, bounded, shared=n) for n in (49152, 49153)] == [SUCCESS, INVALID_VALUE]
    assert [launch(program, shared, shared=n) for n in (48144, 48145)] == [SUCCESS, INVALID_VALUE]
    program.ok("cuFuncSetAttribute", shared, 8, 100000)
    assert launch(program, shared, shared=100000) == SUCCESS
    assert launch(program, store) == INVALID_VALUE
    cooperative = [
        program.status("cuLaunchCooperativeKernel", bounded, blocks, 1, 1, 32, 1, 1, 0, 0, None)
        for blocks in (4, 100000)
    ]
    assert cooperative == [SUCCESS, TOO_LARGE]
    program.ok("cuCtxSynchronize")
    assert program.read(target, 4) == u32(5)


def test_launches_in_steps(start: Start) -> None:
    """The calls of early CUDA: shape, shared memory and parameters are set one by one, then a grid is launched."""
    program = start()
    program.start_up()
    module, target = load(program), program.allocate(4)
    store, shared = function(program, module, "store"), function(program, module, "shared")
    assert program.status("cuLaunchGrid", store, 1, 1) == INVALID_VALUE  # it has parameters, and none are set
    program.ok("cuParamSetv", store, 0, given(u64(target)), 8)
    program.ok("cuParamSeti", store, 8, 7)
    program.ok("cuParamSetSize", store, 12)
    program.ok("cuFuncSetBlockShape", store, 8, 1, 1)
    program.ok("cuLaunchGrid", store, 1, 1)
    program.ok("cuCtxSynchronize")
    assert program.read(target, 4) == u32(7)
    program.ok("cuParamSeti", store, 8, 8)
    program.ok("cuLaunchGridAsync", store, 2, 1, program.number("cuStreamCreate", out(8), 1))
    program.ok("cuCtxSynchronize")
    assert program.read(target, 4) == u32(8)
    wrong = [(0, 1, 1), (1025, 1, 1), (64, 32, 1), (-1, -1, 1)]
    assert [program.status("cuFuncSetBlockShape", store, *shape) for shape in wrong] == [INVALID_VALUE] * len(wrong)
    assert program.status("cuParamSetv", store, 4090, given(bytes(8)), 8) == INVALID_VALUE
    program.ok("cuFuncSetSharedSize", shared, 48144)
    program.ok("cuLaunch", shared)
    program.ok("cuFuncSetSharedSize", shared, 48145)
    assert program.status("cuLaunch", shared) == INVALID_VALUE


def test_parameters_in_one_buffer(start: Start) -> None:
    program = start()
    program.start_up()
    target = program.allocate(4)
    store = function(program, load(program), "store")
    buffer = program.place(u64(target) + u32(6))

    def try_out(size: int, both: bool = False) -> int:
        extra = given(struct.pack("<QQQQQ", 1, buffer, 2, program.place(u64(size)), 0))
        array = given(u64(buffer) + u64(buffer)) if both else None
        return program.status("cuLaunchKernel", store, 1, 1, 1, 1, 1, 1, 0, 0, array, extra)

    assert [try_out(size) for size in (12, 16, 0)] == [SUCCESS, OUT_OF_RESOURCES, INVALID_VALUE]
    assert try_out(12, both=True) == INVALID_VALUE
    assert program.read(target, 4) == u32(6)


def test_attributes_of_a_launch(start: Start) -> None:
    program = start()
    program.start_up()
    bounded = function(program, load(program), "bounded")

    def try_out(number: int, *words: int) -> int:
        attribute = struct.pack("<I4x", number) + struct.pack(f"<{len(words)}I", *words).ljust(64, b"\0")
        config = struct.pack("<7I4xQQI4x", 1, 1, 1, 32, 1, 1, 0, 0, program.place(attribute), 1)
        return program.status("cuLaunchKernelEx", given(config), bounded, None, None)

    assert try_out(2, 1) == SUCCESS  # cooperative
    assert try_out(8, 3) == SUCCESS  # priority
    assert [try_out(4, *shape) for shape in ((1, 1, 1), (2, 1, 1))] == [SUCCESS, 801]  # clusters
    assert try_out(99, 0) == INVALID_VALUE


def test_a_kernel_runs_in_its_stream_while_others_go_on(start: Start) -> None:
    program = start()
    program.start_up()
    module, target = load(program), program.allocate(8)
    wait_for, store = function(program, module, "wait_for"), function(program, module, "store")
    busy, other = (program.number("cuStreamCreate", out(8), 1) for _ in range(2))
    event = program.number("cuEventCreate", out(8), 0)
    flag = program.number("cuMemHostAlloc", out(8), 4, 0)
    assert launch(program, wait_for, u64(flag), stream=busy) == SUCCESS
    assert launch(program, store, u64(target), u32(1), stream=busy) == SUCCESS
    program.ok("cuEventRecord", event, busy)
    program.ok("cuStreamWaitEvent", other, event, 0)
    assert launch(program, store, u64(target), u32(2), stream=other) == SUCCESS
    free = program.number("cuStreamCreate", out(8), 1)
    assert launch(program, store, u64(target + 4), u32(3), stream=free) == SUCCESS
    program.ok("cuStreamSynchronize", free)
    assert program.status("cuStreamQuery", other) == NOT_READY
    assert program.status("cuEventQuery", event) == NOT_READY
    program.poke(flag, u32(1))
    program.ok("cuCtxSynchronize")
    assert program.read(target, 8) == u32(2) + u32(3)


def test_a_checkpoint_waits_for_kernels(start: Start) -> None:
    program, keeper = start(), start()
    program.start_up()
    keeper.start_up()
    module, target = load(program), program.allocate(4)
    flag = program.number("cuMemHostAlloc", out(8), 4, 0)
    assert launch(program, function(program, module, "wait_for"), u64(flag)) == SUCCESS
    assert launch(program, function(program, module, "add_counter"), u64(target)) == SUCCESS
    within = given(struct.pack("<II7Q", 50, 0, *[0] * 7))
    assert keeper.status("cuCheckpointProcessLock", program.pid, within) == NOT_READY
    program.poke(flag, u32(1))
    for step in ("Lock", "Checkpoint", "Restore", "Unlock"):
        keeper.ok(f"cuCheckpointProcess{step}", program.pid, None)
    assert launch(program, function(program, module, "add_counter"), u64(target)) == SUCCESS
    assert program.read(target, 4) == u32(14)


@pytest.mark.parametrize(("kernel", "status"), [("store", ILLEGAL_ADDRESS), ("trapping", LAUNCH_FAILED)])
def test_a_fault_breaks_the_context_for_good(start: Start, kernel: str, status: int) -> None:
    program = start()
    program.start_up()
    module, memory = load(program), program.allocate(64)
    stream, event = program.number("cuStreamCreate", out(8), 1), program.number("cuEventCreate", out(8), 0)
    good = function(program, module, "bounded")
    parameters = (u64(16), u32(1)) if kernel == "store" else ()
    assert launch(program, function(program, module, kernel), *parameters) == SUCCESS
    assert program.status("cuCtxSynchronize") == status
    broken = {
        "cuMemAlloc_v2": (out(8), 64),
        "cuMemFree_v2": (memory,),
        "cuStreamQuery": (stream,),
        "cuEventQuery": (event,),
        "cuEventCreate": (out(8), 0),
        "cuCtxGetLimit": (out(8), 0),
        "cuStreamGetFlags": (stream, out(4)),
        "cuModuleGetFunction": (out(8), module, given(b"store\0")),
        "cuFuncGetAttribute": (out(4), 0, good),
        "cuMemGetInfo_v2": (out(8), out(8)),
        "cuStreamCreate": (out(8), 0),
        "cuModuleLoadData": (out(8), given(TEXT)),
        "cuMemHostAlloc": (out(8), 64, 0),
        "cuStreamDestroy_v2": (stream,),
        "cuStreamSynchronize": (stream,),
        "cuMemcpyDtoH_v2": (out(8), memory, 8),
    }
    assert {name: program.status(name, *args) for name, args in broken.items()} == dict.fromkeys(broken, status)
    assert launch(program, good) == status
    unconcerned = {"cuCtxGetDevice": (out(4),), "cuCtxGetFlags": (out(4),), "cuGraphCreate": (out(8), 0)}
    assert {name: program.status(name, *args) for name, args in unconcerned.items()} == dict.fromkeys(unconcerned, 0)
    program.ok("cuDevicePrimaryCtxReset_v2", 0)
    assert program.status("cuMemAlloc_v2", out(8), 64) == CONTEXT_IS_DESTROYED
    assert program.status("cuDevicePrimaryCtxRetain", out(8), 0) == status


CLIENT = r"""
import numpy as np
from cuda.bindings import driver
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

device = Device()
device.set_current()
stream = device.create_stream()
source = '''
template <typename T> __global__ void axpy(T a, const T* x, T* y, size_t n) {
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = a * x[i] + y[i];
}
extern "C" __global__ void hello(int n) { printf("thread %d of %d\\n", threadIdx.x, n); }
'''
program = Program(source, "c++", ProgramOptions(std="c++17", arch=f"sm_{device.arch}"))
code = program.compile("ptx", name_expressions=("axpy<float>", "axpy<double>"))
n = 1000
for name, kind in (("axpy<float>", np.float32), ("axpy<double>", np.float64)):
    x, y, result = np.arange(n, dtype=kind), np.ones(n, dtype=kind), np.empty(n, dtype=kind)
    there, here = (device.allocate(x.nbytes, stream=stream) for _ in range(2))
    driver.cuMemcpyHtoDAsync(int(there.handle), x, x.nbytes, stream.handle)
    driver.cuMemcpyHtoDAsync(int(here.handle), y, y.nbytes, stream.handle)
    launch(stream, LaunchConfig(grid=4, block=64), code.get_kernel(name), kind(2), there, here, np.uint64(n))
    driver.cuMemcpyDtoHAsync(result, int(here.handle), x.nbytes, stream.handle)
    stream.sync()
    assert (result == 2 * x + 1).all()
adding = Program(
    'extern "C" __global__ void add(int* p, int n) { *p += n; }', "c++", ProgramOptions(arch=f"sm_{device.arch}")
).compile("ptx").get_kernel("add")
one, total = LaunchConfig(grid=1, block=1), device.allocate(4, stream=stream)
driver.cuMemsetD32Async(int(total.handle), 0, 1, stream.handle)
building = stream.create_graph_builder().begin_building()
launch(building, one, adding, total, np.int32(1))
left, right = building.split(2)
launch(left, one, adding, total, np.int32(10))
launch(right, one, adding, total, np.int32(100))
graph = type(building).join(left, right).end_building().complete()
for _ in range(3):
    graph.launch(stream)
result = np.empty(1, dtype=np.int32)
driver.cuMemcpyDtoHAsync(result, int(total.handle), 4, stream.handle)
stream.sync()
assert result[0] == 333

print("before", flush=True)
launch(stream, LaunchConfig(grid=1, block=2), code.get_kernel("hello"), np.int32(2))
stream.sync()
"""


def test_cuda_core_and_nvrtc(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CLIENT],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "before\nthread 0 of 2\nthread 1 of 2\n"
