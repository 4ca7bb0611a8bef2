"""A small training loop in CUDA C++: two layers, gradients by hand, on every device, each with its own data.

Each step prints the loss of every device, bit for bit; two runs print the same, or one of them lost or mixed up
something. The kernels are compiled by NVRTC through cuda-core; odd steps are replayed from a graph, and the step number
lives in a variable of the module.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pace
from cuda.bindings import driver
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

INPUTS, HIDDEN, BATCH = 16, 32, 64
SOURCE = r"""
constexpr int I = 16, H = 32, B = 64;
__device__ unsigned steps;

// One block a sample: its hidden layer, its output, and what its error says about every weight.
extern "C" __global__ void gradients(const float* x, const float* y, const float* w, const float* v, float* dw,
                                     float* dv, float* loss) {
  __shared__ float part[H];
  const int sample = blockIdx.x, unit = threadIdx.x;
  float sum = 0;
  for (int i = 0; i < I; ++i) sum += x[sample * I + i] * w[unit * I + i];
  const float hidden = sum > 0 ? sum : 0.1f * sum;
  part[unit] = hidden * v[unit];
  __syncthreads();
  for (int half = H / 2; half > 0; half /= 2) {
    if (unit < half) part[unit] += part[unit + half];
    __syncthreads();
  }
  const float error = part[0] - y[sample];
  if (unit == 0) loss[sample] = error * error;
  dv[sample * H + unit] = error * hidden;
  const float back = error * v[unit] * (sum > 0 ? 1.0f : 0.1f);
  for (int i = 0; i < I; ++i) dw[(sample * H + unit) * I + i] = back * x[sample * I + i];
}

// One thread a weight: the mean of the samples' gradients, in their order.
extern "C" __global__ void descend(float* weights, const float* gradients, int count, float rate) {
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= count) return;
  float sum = 0;
  for (int sample = 0; sample < B; ++sample) sum += gradients[sample * count + at];
  weights[at] -= rate / (1.0f + 0.01f * steps) * sum / B;
}

extern "C" __global__ void count_step() { steps += 1; }
"""


def check(result: tuple[Any, ...]) -> Any:
    status, *values = result
    if status != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(status.name)
    return values[0] if len(values) == 1 else values


class Training:
    """One device's model, data, stream and graph."""

    def __init__(self, ordinal: int) -> None:
        self.device = Device(ordinal)
        self.device.set_current()
        self.stream = self.device.create_stream()
        program = Program(SOURCE, "c++", ProgramOptions(std="c++17", arch=f"sm_{self.device.arch}"))
        self.code = program.compile("ptx")
        self.kernels = {name: self.code.get_kernel(name) for name in ("gradients", "descend", "count_step")}
        random = np.random.default_rng(ordinal)
        x = random.standard_normal((BATCH, INPUTS), dtype=np.float32)
        self.x = self.upload(x)
        self.y = self.upload(np.sin(x.sum(axis=1, dtype=np.float32)))
        self.w = self.upload(0.3 * random.standard_normal((HIDDEN, INPUTS), dtype=np.float32))
        self.v = self.upload(0.3 * random.standard_normal(HIDDEN, dtype=np.float32))
        self.dw = self.upload(np.zeros((BATCH, HIDDEN, INPUTS), dtype=np.float32))
        self.dv = self.upload(np.zeros((BATCH, HIDDEN), dtype=np.float32))
        self.loss = self.upload(np.zeros(BATCH, dtype=np.float32))
        self.graph = self.captured()

    def upload(self, values: np.ndarray[Any, Any]) -> int:
        address = int(check(driver.cuMemAlloc(values.nbytes)))
        check(driver.cuMemcpyHtoD(address, np.ascontiguousarray(values, dtype=np.float32), values.nbytes))
        return address

    def submit(self) -> None:
        run = self.kernels
        launch(
            self.stream,
            LaunchConfig(grid=BATCH, block=HIDDEN),
            run["gradients"],
            *(self.x, self.y, self.w, self.v, self.dw, self.dv, self.loss),
        )
        for weights, gradient, count in ((self.w, self.dw, HIDDEN * INPUTS), (self.v, self.dv, HIDDEN)):
            config = LaunchConfig(grid=(count + 63) // 64, block=64)
            launch(self.stream, config, run["descend"], weights, gradient, np.int32(count), np.float32(0.05))
        launch(self.stream, LaunchConfig(grid=1, block=1), run["count_step"])

    def captured(self) -> Any:
        mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        check(driver.cuStreamBeginCapture(self.stream.handle, mode))
        self.submit()
        graph = check(driver.cuStreamEndCapture(self.stream.handle))
        return check(driver.cuGraphInstantiate(graph, 0))

    def step(self, number: int) -> str:
        self.device.set_current()
        if number % 2:
            check(driver.cuGraphLaunch(self.graph, self.stream.handle))
        else:
            self.submit()
        losses = np.empty(BATCH, dtype=np.float32)
        check(driver.cuMemcpyDtoHAsync(losses, self.loss, losses.nbytes, self.stream.handle))
        self.stream.sync()
        return float(losses.sum(dtype=np.float64)).hex()


def main() -> None:
    arguments = pace.parser().parse_args()
    check(driver.cuInit(0))
    trainings = [Training(ordinal) for ordinal in range(check(driver.cuDeviceGetCount()))]
    for number in pace.steps(arguments):
        losses = " ".join(training.step(number) for training in trainings)
        os.write(1, f"{number} {losses}\n".encode())


main()
