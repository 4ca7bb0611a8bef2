"""The objects of one program in `calls.py`, and its steps."""

from __future__ import annotations

import ctypes
import hashlib
from typing import Any

from cuda.bindings import driver

from tests.conformance import gpu
from tests.vm import rounds

BUFFERS, STREAMS, WORDS = 3, 3, 2048
PLACES = 8  # in pinned memory
HUGE = 8000  # words of a parameter
NAMES = ("mix", "wide", "huge", "none", "clusters", "stray", "shared")

SOURCE = """
extern "C" __global__ void mix(unsigned* words, unsigned count, unsigned a, unsigned char b, unsigned long long c) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    words[i] = words[i] * a + b + unsigned(c >> 32) + i;
}
struct Wide { unsigned values[200]; };
extern "C" __global__ void wide(unsigned* words, Wide by) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < 2048) words[i] ^= by.values[i % 200];
}
struct Huge { unsigned values[8000]; };
extern "C" __global__ void huge(unsigned* words, Huge by) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < 2048) words[i] += by.values[7999 - i];
}
extern "C" __global__ void none() {}
extern "C" __global__ void __cluster_dims__(1, 1, 1) clusters() {}
extern "C" __global__ void stray(unsigned* words) { words[0] = 1; }
extern "C" __global__ void shared(unsigned* words) {
  extern __shared__ unsigned part[];
  part[threadIdx.x] = words[threadIdx.x]; __syncthreads();
  words[threadIdx.x] = part[blockDim.x - 1 - threadIdx.x] + 1;
}
"""


class World:
    """One program's objects. Every method is a step; what it returns is noted."""

    def __init__(self) -> None:
        self.second: Any = None
        self._load()
        self.streams = [driver.CUstream(0)] + [gpu.call("cuStreamCreate", index % 2) for index in range(1, STREAMS)]
        self.blocking = [True] + [index % 2 == 0 for index in range(1, STREAMS)]
        self.buffers = [int(gpu.call("cuMemAlloc", WORDS * 4)) for _ in range(BUFFERS)]
        self.owner = [0] * BUFFERS
        self.pinned = int(gpu.call("cuMemHostAlloc", PLACES * WORDS * 4 + rounds.SLOTS * rounds.SLOT, 0))
        self.slots = self.pinned + PLACES * WORDS * 4
        self.turn = 0
        self.scratch = int(gpu.call("cuMemAlloc", 64))
        gpu.call("cuMemsetD16Async", self.scratch, 0, 8, 0)
        self.held = rounds.Held()
        self.events = [gpu.call("cuEventCreate", 2) for _ in range(STREAMS)]
        self.graphs = [self._graph(index) for index in range(BUFFERS)]
        for index, buffer in enumerate(self.buffers):
            gpu.call("cuMemsetD32", buffer, index, WORDS)
        gpu.call("cuCtxSynchronize")

    def _load(self) -> None:
        self.module = gpu.module(SOURCE)
        self.functions = {name: gpu.function(self.module, name) for name in NAMES}

    def _graph(self, buffer: int) -> Any:
        stream = self.streams[1]
        gpu.call("cuStreamBeginCapture", stream, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL)
        self._launch("mix", stream, 4, 64, 0, self.buffers[buffer], WORDS, 3, 7, 5 << 32)
        self._launch("mix", stream, 2, 128, 0, self.buffers[buffer], WORDS, 5, 1, 9 << 32)
        return gpu.call("cuGraphInstantiate", gpu.call("cuStreamEndCapture", stream), 0)

    def _launch(self, name: str, stream: Any, grid: int, block: int, shared: int, *values: Any) -> str:
        kinds: dict[str, tuple[Any, ...]] = {
            "mix": (ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint8, ctypes.c_uint64),
            "wide": (ctypes.c_uint64, ctypes.c_uint32 * 200),
            "huge": (ctypes.c_uint64, ctypes.c_uint32 * HUGE),
            "stray": (ctypes.c_uint64,),
            "shared": (ctypes.c_uint64,),
        }
        if name in kinds:
            given = [
                kind(*value) if isinstance(value, list) else kind(value)
                for kind, value in zip(kinds[name], values, strict=True)
            ]
            pointers = (ctypes.c_void_p * len(given))(*(ctypes.addressof(value) for value in given))
            parameters: Any = ctypes.addressof(pointers)
        else:
            parameters = 0
        result = gpu.status(
            "cuLaunchKernel", self.functions[name], grid, 1, 1, block, 1, 1, shared, stream, parameters, 0
        )
        for value in given if name in kinds else []:
            ctypes.memset(ctypes.addressof(value), 0xEE, ctypes.sizeof(value))  # whoever reads them later reads this
        return result

    def mix(self, buffer: int, grid: int, block: int, a: int, b: int, c: int) -> str:
        return self._launch(
            "mix", self.streams[self.owner[buffer]], grid, block, 0, self.buffers[buffer], WORDS, a, b, c
        )

    def wide(self, buffer: int, seed: int) -> str:
        values = [(seed * 7919 + index * 104729) & 0xFFFFFFFF for index in range(200)]
        return self._launch("wide", self.streams[self.owner[buffer]], 16, 128, 0, self.buffers[buffer], values)

    def huge(self, buffer: int, seed: int) -> str:
        values = [(seed * 7919 + index * 104729) & 0xFFFFFFFF for index in range(HUGE)]
        return self._launch("huge", self.streams[self.owner[buffer]], 16, 128, 0, self.buffers[buffer], values)

    def shared(self, buffer: int, size: int) -> str:
        return self._launch("shared", self.streams[self.owner[buffer]], 1, 256, size, self.buffers[buffer])

    def shared_limit(self, size: int) -> str:
        attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        return gpu.status("cuFuncSetAttribute", self.functions["shared"], attribute, size)

    def none(self, stream: int) -> str:
        return self._launch("none", self.streams[stream], 1, 32, 0)

    def cooperative(self, stream: int) -> str:
        attribute = driver.CUlaunchAttribute()
        attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
        attribute.value.cooperative = 1
        return self._launch_with(attribute, stream)

    def bad_cluster(self, stream: int) -> list[str]:
        """Of one size they may be right, and wrong of another."""
        attribute = driver.CUlaunchAttribute()
        attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        size = attribute.value.clusterDim
        said = []
        for size.x in (1, 1, 1, 3, 1):
            size.y = size.z = 1
            said.append(self._launch_with(attribute, stream))
        return said

    def _launch_with(self, attribute: Any, stream: int) -> str:
        config = driver.CUlaunchConfig()
        config.gridDimX = config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1
        config.blockDimX, config.hStream = 32, self.streams[stream]
        config.attrs, config.numAttrs = [attribute], 1
        return gpu.status("cuLaunchKernelEx", config, self.functions["none"], 0, 0)

    def clusters(self, stream: int, grid: int) -> str:
        return self._launch("clusters", self.streams[stream], grid, 32, 0)

    def too_wide(self, stream: int) -> str:
        return self._launch("none", self.streams[stream], 1, 2048, 0)

    def no_grid(self, stream: int) -> str:
        return self._launch("none", self.streams[stream], 0, 32, 0)

    def fill(self, buffer: int, at: int, count: int, value: int) -> str:
        stream = self.streams[self.owner[buffer]]
        return gpu.status("cuMemsetD32Async", self.buffers[buffer] + at * 4, value, min(count, WORDS - at), stream)

    def fill_bytes(self, buffer: int, at: int, count: int, value: int) -> str:
        return gpu.status("cuMemsetD8Async", self.buffers[buffer] + at, value, count, self.streams[self.owner[buffer]])

    def fill_askew(self, buffer: int) -> str:
        return gpu.status("cuMemsetD32Async", self.buffers[buffer] + 2, 0, 16, self.streams[self.owner[buffer]])

    def fill_nowhere(self, stream: int) -> str:
        return gpu.status("cuMemsetD32Async", 4096, 0, 16, self.streams[stream])

    def copy(self, to: int, source: int, words: int) -> str:
        if self.owner[to] != self.owner[source] or to == source:
            return "apart"
        stream = self.streams[self.owner[to]]
        return gpu.status("cuMemcpyDtoDAsync", self.buffers[to], self.buffers[source], words * 4, stream)

    def _place(self) -> int:
        """Pinned memory that nothing uses any more."""
        self.turn += 1
        if self.turn % PLACES == 0:
            gpu.call("cuCtxSynchronize")
        return self.pinned + self.turn % PLACES * WORDS * 4

    def put(self, buffer: int, words: int, seed: int) -> str:
        place = self._place()
        values = (ctypes.c_uint32 * WORDS).from_address(place)
        values[:] = [(seed + index * 31) & 0xFFFFFFFF for index in range(WORDS)]
        stream = self.streams[self.owner[buffer]]
        return gpu.status("cuMemcpyHtoDAsync", self.buffers[buffer], place, words * 4, stream)

    def get(self, buffer: int, words: int, at_once: bool) -> list[str]:
        """With `at_once` nothing else is submitted before the bytes are looked at."""
        place = self._place()
        ctypes.memset(place, 0, WORDS * 4)
        stream = self.streams[self.owner[buffer]]
        said = [gpu.status("cuMemcpyDtoHAsync", place, self.buffers[buffer], words * 4, stream)]
        if not at_once:
            said.append(self.mix(buffer, 1, 32, 3, 5, 7))
        said.append(gpu.status("cuStreamSynchronize", stream))
        return [*said, hashlib.blake2b(ctypes.string_at(place, words * 4), digest_size=8).hexdigest()]

    def graph(self, buffer: int) -> str:
        return gpu.status("cuGraphLaunch", self.graphs[buffer], self.streams[self.owner[buffer]])

    def elsewhere(self, value: int) -> list[str]:
        """Work in a second context of the device, which has a default stream and memory of its own."""
        if self.second is None:
            self.second = gpu.call("cuCtxCreate", None, 0, gpu.start())
            self.buffer_there = int(gpu.call("cuMemAlloc", WORDS * 4))
        else:
            gpu.call("cuCtxPushCurrent", self.second)
        said = [gpu.status("cuMemsetD32Async", self.buffer_there, value + turn, WORDS, 0) for turn in range(3)]
        gpu.call("cuCtxPopCurrent")
        return said

    def renew_graph(self, buffer: int) -> str:
        result = gpu.status("cuGraphExecDestroy", self.graphs[buffer])
        gpu.call("cuCtxSynchronize")
        self.graphs[buffer] = self._graph(buffer)
        return result

    def rounds(self, kinds: list[list[int]], times: int, seed: int, apart: bool) -> list[str]:
        """The same work again and again, which the driver gets at once."""
        return rounds.again(self, kinds, times, seed, apart)

    def together(self, kinds: list[list[list[int]]], times: int, seed: int) -> list[str]:
        """The same from several threads at a time, each with a buffer of its own."""
        return rounds.together(self, kinds, times, seed)

    def renew_memory(self, buffer: int) -> str:
        """Another allocation, which comes to lie where the old one was; the buffer's graph is not to be launched."""
        before = self.buffers[buffer]
        result = gpu.status("cuMemFree", before)
        self.buffers[buffer] = int(gpu.call("cuMemAlloc", WORDS * 4))
        gpu.call("cuMemsetD32", self.buffers[buffer], 13, WORDS)
        return f"{result} {self.buffers[buffer] == before}"

    def hand(self, buffer: int, stream: int) -> list[str]:
        before, self.owner[buffer] = self.owner[buffer], stream
        event = self.events[before]
        recorded = gpu.status("cuEventRecord", event, self.streams[before])
        return [recorded, gpu.status("cuStreamWaitEvent", self.streams[stream], event, 0)]

    def mark(self, stream: int, other: int, times: int) -> list[str]:
        """Records an event again and again, on one stream and then on another."""
        said = [gpu.status("cuEventRecord", self.events[stream], self.streams[stream]) for _ in range(times)]
        return [*said, gpu.status("cuEventRecord", self.events[stream], self.streams[other])]

    def await_own(self, stream: int, other: int) -> str:
        return gpu.status("cuStreamWaitEvent", self.streams[other], self.events[stream], 0)

    def renew_event(self, stream: int) -> str:
        result = gpu.status("cuEventDestroy", self.events[stream])
        self.events[stream] = gpu.call("cuEventCreate", 2)
        return result

    def ask(self, stream: int) -> str:
        """An event that was waited for has completed."""
        event = self.events[stream]
        return f"{gpu.status('cuEventSynchronize', event)} {gpu.status('cuEventQuery', event)}"

    def renew_stream(self, stream: int) -> str:
        if stream == 0:
            return "legacy"
        gpu.call("cuStreamSynchronize", self.streams[stream])
        result = gpu.status("cuStreamDestroy", self.streams[stream])
        self.streams[stream] = gpu.call("cuStreamCreate", stream % 2)
        return result

    def bad_stream(self, stream: int) -> str:
        """A launch on a stream that is gone is refused at the call."""
        gone = gpu.call("cuStreamCreate", stream % 2)
        for _ in range(3):
            assert self._launch("none", gone, 1, 32, 0) == "SUCCESS"
        gpu.call("cuStreamDestroy", gone)
        return self._launch("none", gone, 1, 32, 0)

    def bad_graph(self, buffer: int) -> str:
        """So is one of a graph that is gone."""
        gone = self._graph(buffer)
        for _ in range(3):
            assert gpu.status("cuGraphLaunch", gone, self.streams[self.owner[buffer]]) == "SUCCESS"
        gpu.call("cuGraphExecDestroy", gone)
        return gpu.status("cuGraphLaunch", gone, self.streams[self.owner[buffer]])

    def bad_event(self, stream: int) -> list[str]:
        """And what is said of an event that is gone."""
        gone = gpu.call("cuEventCreate", 2)
        for _ in range(3):
            assert gpu.status("cuEventRecord", gone, self.streams[stream]) == "SUCCESS"
            assert gpu.status("cuStreamWaitEvent", self.streams[0], gone, 0) == "SUCCESS"
        gpu.call("cuEventDestroy", gone)
        record = gpu.status("cuEventRecord", gone, self.streams[stream])
        return [record, gpu.status("cuStreamWaitEvent", self.streams[0], gone, 0)]

    def bad_function(self, stream: int) -> str:
        """And a launch of a function whose module is gone."""
        module = gpu.module(SOURCE)
        kept, self.functions["none"] = self.functions["none"], gpu.function(module, "none")
        for _ in range(3):
            assert self.none(stream) == "SUCCESS"
        gpu.call("cuModuleUnload", module)
        said = self.none(stream)
        self.functions["none"] = kept
        return said

    def renew_module(self) -> str:
        gpu.call("cuCtxSynchronize")
        result = gpu.status("cuModuleUnload", self.module)
        self._load()
        for buffer in range(BUFFERS):
            gpu.call("cuGraphExecDestroy", self.graphs[buffer])
            self.graphs[buffer] = self._graph(buffer)
        return result

    def renew_buffer(self, buffer: int) -> str:
        result = gpu.status("cuMemFree", self.buffers[buffer])
        self.buffers[buffer] = int(gpu.call("cuMemAlloc", WORDS * 4))
        gpu.call("cuMemsetD32", self.buffers[buffer], 11, WORDS)
        gpu.call("cuCtxSynchronize")
        gpu.call("cuGraphExecDestroy", self.graphs[buffer])
        self.graphs[buffer] = self._graph(buffer)
        return result

    def wait(self, stream: int) -> str:
        return gpu.status("cuStreamSynchronize", self.streams[stream])

    def read(self, buffer: int) -> str:
        data = bytearray(WORDS * 4)
        gpu.call("cuMemcpyDtoHAsync", data, self.buffers[buffer], len(data), self.streams[self.owner[buffer]])
        gpu.call("cuStreamSynchronize", self.streams[self.owner[buffer]])
        return hashlib.blake2b(data, digest_size=8).hexdigest()

    def whole(self) -> str:
        gpu.call("cuCtxSynchronize")
        digest = hashlib.blake2b(digest_size=8)
        for buffer in self.buffers:
            data = bytearray(WORDS * 4)
            gpu.call("cuMemcpyDtoH", data, buffer, len(data))
            digest.update(data)
        if self.second is not None:
            gpu.call("cuCtxPushCurrent", self.second)
            data = bytearray(WORDS * 4)
            gpu.call("cuMemcpyDtoH", data, self.buffer_there, len(data))
            gpu.call("cuCtxPopCurrent")
            digest.update(data)
        return digest.hexdigest()

    def stray(self, stream: int) -> list[str]:
        """An address that is nobody's: by the next call that waits the context is lost. Ends the program."""
        first = self._launch("stray", self.streams[stream], 1, 1, 0, 4096)
        return [
            first,
            gpu.status("cuCtxSynchronize"),
            gpu.status("cuMemAlloc", 4),
            self._launch("none", self.streams[0], 1, 32, 0),
        ]

    def end(self) -> None:
        """Gives everything back; the next program finds nothing of it."""
        gpu.call("cuCtxSynchronize")
        for graph in self.graphs:
            gpu.call("cuGraphExecDestroy", graph)
        for event in self.events:
            gpu.call("cuEventDestroy", event)
        for stream in self.streams[1:]:
            gpu.call("cuStreamDestroy", stream)
        for buffer in self.buffers:
            gpu.call("cuMemFree", buffer)
        gpu.call("cuMemFreeHost", self.pinned)
        gpu.call("cuMemFree", self.scratch)
        gpu.call("cuModuleUnload", self.module)
        if self.second is not None:
            gpu.call("cuCtxDestroy", self.second)
