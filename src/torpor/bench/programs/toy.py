"""Stand-ins for models, made of the driver's calls alone: for the software GPU, and where there is no PyTorch.

They have the shape of the real ones and nothing of their sense: weights in several arrays on the GPU, a few kernels a
step, a loss or tokens that depend on every word. Bit for bit the same in every run with the same seed.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import numpy as np
from cuda.bindings import driver

_PTX = Path(__file__).with_name("toy.ptx")


def check(result: tuple[Any, ...]) -> Any:
    """What a call gave. Raises on anything but success."""
    status, *values = result
    if status != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(status.name)
    return values[0] if len(values) == 1 else values


class Gpu:
    """The first GPU with our kernels and a stream."""

    def __init__(self) -> None:
        check(driver.cuInit(0))
        check(driver.cuCtxSetCurrent(check(driver.cuDevicePrimaryCtxRetain(0))))
        self.module = check(driver.cuModuleLoadData(_PTX.read_bytes() + b"\0"))
        self.stream = check(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING))
        self.kernels: dict[str, Any] = {}

    def launch(self, name: str, count: int, *arguments: int) -> None:
        """`count` threads of a kernel; addresses and sizes are 64 bits wide."""
        if name not in self.kernels:
            self.kernels[name] = check(driver.cuModuleGetFunction(self.module, name.encode()))
        values = [np.array([value], dtype=np.uint64) for value in arguments]
        places = np.array([value.ctypes.data for value in values], dtype=np.uint64)
        blocks = (count + 127) // 128
        check(driver.cuLaunchKernel(
            self.kernels[name], blocks, 1, 1, 128, 1, 1, 0, self.stream, places.ctypes.data, 0
        ))  # fmt: skip

    def array(self, words: int) -> int:
        """Device address of `words` 32-bit zeros."""
        address = int(check(driver.cuMemAlloc(max(4, words * 4))))
        check(driver.cuMemsetD32(address, 0, max(1, words)))
        return address

    def put(self, address: int, values: Any) -> None:
        """Copy 32-bit words to the GPU."""
        words = np.ascontiguousarray(values, dtype=np.uint32)
        check(driver.cuMemcpyHtoDAsync(address, words.ctypes.data, words.nbytes, self.stream))
        self.wait()

    def get(self, address: int, words: int) -> Any:
        """Copy 32-bit words from the GPU."""
        found = np.empty(words, dtype=np.uint32)
        check(driver.cuMemcpyDtoHAsync(found.ctypes.data, address, found.nbytes, self.stream))
        self.wait()
        return found

    def wait(self) -> None:
        check(driver.cuStreamSynchronize(self.stream))


class Weights:
    """`layers` arrays of `words` 32-bit words, filled from a seed or from a file."""

    def __init__(self, gpu: Gpu, layers: int, words: int) -> None:
        self.gpu, self.layers, self.words = gpu, layers, words
        self.arrays = [gpu.array(words) for _ in range(layers)]

    def fill(self, seed: int) -> None:
        for layer, array in enumerate(self.arrays):
            self.gpu.launch("fill", self.words, array, self.words, seed * 1000 + layer)

    def write(self, path: Path) -> None:
        """One array after another, to the disk."""
        with path.open("wb") as file:
            for array in self.arrays:
                file.write(self.gpu.get(array, self.words).tobytes())
            file.flush()
            os.fsync(file.fileno())

    def read(self, path: Path) -> None:
        """What `write` wrote. ValueError when the file has another size."""
        if path.stat().st_size < self.layers * self.words * 4:
            raise ValueError(f"{path} is too short")
        found = np.memmap(path, dtype=np.uint32, mode="r")
        for layer, array in enumerate(self.arrays):
            self.gpu.put(array, found[layer * self.words : (layer + 1) * self.words])


class Trainer:
    """As gpt.Trainer: a step changes every word of the weights and sums them up."""

    methods = ("file",)

    def __init__(self, options: argparse.Namespace) -> None:
        self.gpu, self.number = Gpu(), 0
        self.weights = Weights(self.gpu, options.layers, options.width**2)
        self.weights.fill(options.seed)
        self.sum = self.gpu.array(1)

    def step(self) -> None:
        self.number += 1
        check(driver.cuMemsetD32Async(self.sum, 0, 1, self.gpu.stream))
        for array in self.weights.arrays:
            self.gpu.launch("train", self.weights.words, array, self.weights.words, self.number, self.sum)

    def wait(self) -> None:
        self.gpu.wait()

    def loss(self) -> str:
        return f"{int(self.gpu.get(self.sum, 1)[0]):#010x}" if self.number else "none"

    def prepare(self, method: str) -> None:
        del method

    def save(self, method: str, folder: Path) -> None:
        del method
        self.weights.write(folder / "weights.raw")
        (folder / "number").write_text(str(self.number))

    def saved(self) -> bool:
        return True

    def load(self, method: str, folder: Path) -> None:
        del method
        self.weights.read(folder / "weights.raw")
        self.number = int((folder / "number").read_text())


class Decoder:
    """As llama.Decoder: the next token depends on all of a request's cached tokens, and on the weights."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.gpu, self.vocabulary, self.page = Gpu(), options.vocabulary, options.page
        self.width, self.slots, self.seed = options.longest // options.page, options.slots, options.seed
        self.weights = Weights(self.gpu, options.layers, options.width**2)
        self.cache = self.gpu.array((1 + self.slots * self.width) * self.page)
        self.inputs = self.gpu.array(self.slots * (2 + self.width))
        self.outputs = self.gpu.array(self.slots)
        self.graphs: dict[int, Any] = {}

    def fill(self) -> None:
        self.weights.fill(self.seed)

    def write(self, path: Path) -> None:
        self.weights.write(path)

    def read(self, path: Path) -> None:
        self.weights.read(path)

    def prefill(self, tokens: list[int], table: list[int]) -> int:
        """Cache a prompt, token by token; the first new token."""
        found = [0]
        for place, token in enumerate(tokens):
            found = self.decode([token], [place], [table], False)
        return found[0]

    def decode(self, tokens: list[int], places: list[int], tables: list[list[int]], graphs: bool) -> list[int]:
        """One token on for each request."""
        count = len(tokens)
        rows = [[token, place, *table, *[0] * (self.width - len(table))]
                for token, place, table in zip(tokens, places, tables, strict=True)]  # fmt: skip
        self.gpu.put(self.inputs, rows)
        if graphs:
            check(driver.cuGraphLaunch(self._graph(count), self.gpu.stream))
        else:
            self._launch(count)
        return [int(token) for token in self.gpu.get(self.outputs, count)]

    def _launch(self, count: int) -> None:
        for layer, array in enumerate(self.weights.arrays):
            self.gpu.launch("decode", count, self.inputs, self.width, self.page, self.cache, array,
                            self.weights.words, self.outputs, self.vocabulary, layer, count)  # fmt: skip

    def _graph(self, count: int) -> Any:
        if count not in self.graphs:
            mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
            check(driver.cuStreamBeginCapture(self.gpu.stream, mode))
            self._launch(count)
            graph = check(driver.cuStreamEndCapture(self.gpu.stream))
            self.graphs[count] = check(driver.cuGraphInstantiate(graph, 0))
        return self.graphs[count]
