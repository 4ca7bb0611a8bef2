"""Question: how fast does the software GPU run kernels?

CUDA C++ compiled by NVRTC, loaded and launched through the real driver API (cuda-bindings), on the software GPU. Each
result is compared with what the CPU computes, then timed: wall time, which the targets are held against, and the
processor time of all threads. Half of that is an estimate of what two idle cores would need, if the work spread evenly.
It is shown because wall time grows with whatever else the machine does, but it proves no target.

Targets, on 2 cores: a tiled 1024 x 1024 f32 matrix product in less than 10 s; element-wise kernels at 100 million
elements a minute or more.

    python bench/simgpu_kernels.py [--repeat 3] [--elements 4194304] [--out simgpu-kernels.json]
"""

from __future__ import annotations

import script

import array
import ctypes
import os
import random
import struct
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import machine
from driver_calls import checked, on_the_software_gpu

SIDE, TILE, BLOCK = 1024, 16, 256
PRODUCT_SECONDS, ELEMENTS_A_MINUTE = 10.0, 100e6

SOURCE = r"""
extern "C" __global__ void product(const float* a, const float* b, float* c, int n) {
  __shared__ float left[16][16], right[16][16];
  int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, column = blockIdx.x * 16 + x;
  float sum = 0;
  for (int tile = 0; tile < n; tile += 16) {
    left[y][x] = a[row * n + tile + x];
    right[y][x] = b[(tile + y) * n + column];
    __syncthreads();
    for (int k = 0; k < 16; ++k) sum += left[y][k] * right[k][x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}
extern "C" __global__ void axpy(const float* a, const float* b, float* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = 2.0f * a[i] + b[i];
}
extern "C" __global__ void gelu(const float* a, const float* b, float* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = 0.5f * a[i] * (1.0f + tanhf(0.79788456f * (a[i] + 0.044715f * a[i] * a[i] * a[i]))) + 0.0f * b[i];
}
extern "C" __global__ void collatz(const float* a, const float* b, float* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, steps = 0;
  if (i >= n) return;
  for (unsigned v = (i & 63) + 1; v != 1; ++steps) v = v & 1 ? 3 * v + 1 : v / 2;
  c[i] = steps;
}
extern "C" __global__ void sums(const float* a, const float* b, float* c, int n) {
  __shared__ float warps[8];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float v = i < n ? a[i] : 0;
  for (int step = 16; step; step /= 2) v += __shfl_down_sync(0xffffffff, v, step);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int k = 1; k < 8; ++k) v += warps[k];
    atomicAdd(c + (blockIdx.x & 1023), v);
  }
}
"""
ELEMENTWISE = {
    "axpy": "2a + b",
    "gelu": "GELU with tanhf",
    "collatz": "a loop of 0 to 112 divergent turns",
    "sums": "sums by shuffles, shared memory and atomics",
}


@dataclass
class Row:
    """One kernel: what it does, how many elements, and the best repetition."""

    kernel: str
    what: str
    elements: int
    seconds: float
    processor_seconds: float
    estimate_two_idle_cores: float
    target: str
    met: bool  # by wall time


class Gpu:
    """A context on the first device, the module, and two inputs and an output of `count` floats each."""

    def __init__(self, count: int) -> None:
        from cuda.bindings import driver, nvrtc

        self.driver, self.count = driver, count
        checked(driver.cuInit(0))
        device = checked(driver.cuDeviceGet(0))
        self.name = checked(driver.cuDeviceGetName(100, device)).split(b"\0")[0].decode()
        checked(driver.cuCtxSetCurrent(checked(driver.cuDevicePrimaryCtxRetain(device))))
        start = time.perf_counter()
        program = checked(nvrtc.nvrtcCreateProgram(SOURCE.encode(), b"bench.cu", 0, [], []))
        checked(nvrtc.nvrtcCompileProgram(program, 1, [b"--gpu-architecture=compute_80"]))
        text = bytes(checked(nvrtc.nvrtcGetPTXSize(program)))
        checked(nvrtc.nvrtcGetPTX(program, text))
        self.compile_seconds = time.perf_counter() - start
        start = time.perf_counter()
        self.module = checked(driver.cuModuleLoadData(text))
        self.load_seconds = time.perf_counter() - start
        self.buffers = [int(checked(driver.cuMemAlloc(4 * count))) for _ in range(3)]
        chance = random.Random(1)
        self.inputs = [array.array("f", (chance.randrange(-8, 9) / 4 for _ in range(4096))) for _ in range(2)]
        for values, address in zip(self.inputs, self.buffers, strict=False):
            whole = values.tobytes() * (count // len(values))
            checked(driver.cuMemcpyHtoD(address, whole, len(whole)))

    def launch(self, name: str, grid: tuple[int, int], block: tuple[int, int], number: int) -> tuple[float, float]:
        """Seconds and processor seconds of one launch, from an output of zeroes."""
        script.check()
        driver = self.driver
        function = checked(driver.cuModuleGetFunction(self.module, name.encode()))
        checked(driver.cuMemsetD32(self.buffers[2], 0, self.count))
        kinds = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
        before, used = time.perf_counter(), time.process_time()
        checked(driver.cuLaunchKernel(function, *grid, 1, *block, 1, 0, 0, ((*self.buffers, number), kinds), 0))
        checked(driver.cuCtxSynchronize())
        return time.perf_counter() - before, time.process_time() - used

    def output(self, index: int) -> float:
        raw = bytes(4)
        checked(self.driver.cuMemcpyDtoH(raw, self.buffers[2] + 4 * index, 4))
        return float(struct.unpack("<f", raw)[0])


def check(gpu: Gpu, name: str) -> None:
    """Compares some of what a kernel left with the CPU's own result; ends the program when it is wrong."""
    a, b = gpu.inputs
    size = len(a)
    for index in (0, 1, 77, gpu.count // 2 + 5, gpu.count - 1) if name != "product" else (0, 77, SIDE * SIDE - 1):
        if name == "product":
            row, column = divmod(index, SIDE)
            wanted = sum(a[(row * SIDE + k) % size] * b[(k * SIDE + column) % size] for k in range(SIDE))
        elif name == "axpy":
            wanted = 2 * a[index % size] + b[index % size]
        elif name == "collatz":
            value, wanted = (index & 63) + 1, 0.0
            while value != 1:
                value, wanted = (3 * value + 1 if value & 1 else value // 2), wanted + 1
        else:
            continue  # sums of the reduction depend on the order of its atomics only where floats round: checked below
        if gpu.output(index) != wanted:
            raise SystemExit(f"{name}: element {index} is {gpu.output(index)}, not {wanted}")
    if name == "sums":
        found, wanted = sum(gpu.output(i) for i in range(1024)), sum(a) * (gpu.count // size)
        if found != wanted:
            raise SystemExit(f"sums: {found}, not {wanted}")
    if name == "gelu" and abs(gpu.output(0) - _gelu(a[0])) > 1e-6:
        raise SystemExit(f"gelu: {gpu.output(0)}, not {_gelu(a[0])}")


def _gelu(x: float) -> float:
    import math

    return 0.5 * x * (1 + math.tanh(0.79788456 * (x + 0.044715 * x**3)))


def best(repeat: int, run: Callable[[], tuple[float, float]]) -> tuple[float, float]:
    return min((run() for _ in range(repeat)), key=lambda timed: timed[0])


def main() -> None:
    arguments = script.options(__doc__)
    arguments.add_argument("--repeat", type=script.whole(), default=3)
    of = "of the element-wise kernels; a power of two"
    arguments.add_argument("--elements", type=script.power_of_two, default=1 << 22, help=of)
    options = arguments.parse_args()
    on_the_software_gpu()
    gpu = Gpu(max(options.elements, SIDE * SIDE))
    rows = []

    def add(name: str, what: str, elements: int, timed: tuple[float, float], limit: float) -> None:
        check(gpu, name)
        times = (round(each, 4) for each in (*timed, timed[1] / 2))
        rows.append(Row(name, what, elements, *times, f"< {limit:.2f} s", timed[0] < limit))

    tiles = (SIDE // TILE, SIDE // TILE)
    timed = best(options.repeat, lambda: gpu.launch("product", tiles, (TILE, TILE), SIDE))
    add("product", f"{SIDE} x {SIDE} f32 matrix product, tiles of {TILE}", SIDE * SIDE, timed, PRODUCT_SECONDS)
    for name, what in ELEMENTWISE.items():
        grid = (gpu.count // BLOCK, 1)
        timed = best(options.repeat, lambda name=name, grid=grid: gpu.launch(name, grid, (BLOCK, 1), gpu.count))
        add(name, what, gpu.count, timed, gpu.count * 60 / ELEMENTS_A_MINUTE)
    load = os.getloadavg()[0]
    print(f"{gpu.name}; NVRTC {gpu.compile_seconds:.2f} s, loading {gpu.load_seconds:.3f} s; load average {load:.1f}")
    print("| kernel | what | elements | wall s | processor s | half of it | M elements a minute | target | met |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for row in rows:
        rate, met = row.elements / row.seconds * 60 / 1e6, "yes" if row.met else "no"
        times = f"{row.seconds:.2f} | {row.processor_seconds:.2f} | {row.estimate_two_idle_cores:.2f}"
        print(f"| {row.kernel} | {row.what} | {row.elements} | {times} | {rate:.0f} | {row.target} | {met} |")
    found = {"machine": machine.describe(), "device": gpu.name, "load_average": load,
             "nvrtc_seconds": gpu.compile_seconds, "load_seconds": gpu.load_seconds,
             "kernels": [asdict(row) for row in rows]}  # fmt: skip
    script.keep(options.out, found)


if __name__ == "__main__":
    script.run(main)
