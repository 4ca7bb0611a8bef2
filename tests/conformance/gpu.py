"""The driver and NVRTC, as the cases use them: through cuda-bindings alone, so that it runs wherever a driver is."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

from cuda.bindings import driver, nvrtc

PRELUDE = (Path(__file__).parent / "kernels" / "prelude.h").read_text()
ARCHITECTURE = "compute_90"


class Refused(Exception):
    """A call that had to succeed did not."""


def status(name: str, *args: Any) -> str:
    """The name of what the call returned, without its prefix."""
    return str(getattr(driver, name)(*args)[0].name).removeprefix("CUDA_")


def call(name: str, *args: Any) -> Any:
    """What the call gives; it must succeed."""
    result, *values = getattr(driver, name)(*args)
    if int(result):
        raise Refused(f"{name}: {result.name}")
    return values[0] if len(values) == 1 else tuple(values)


@cache
def start() -> Any:
    """The primary context of the first device, current in this thread; returns the device."""
    call("cuInit", 0)
    device = call("cuDeviceGet", 0)
    call("cuCtxSetCurrent", call("cuDevicePrimaryCtxRetain", device))
    return device


@cache
def nvrtc_version() -> str:
    _, major, minor = nvrtc.nvrtcVersion()
    return f"{major}.{minor}"


@cache
def ptx(source: str, *options: str) -> bytes:
    """CUDA C++ (the prelude in front) as PTX. Products and sums are not fused unless an option says so."""
    chosen = [f"--gpu-architecture={ARCHITECTURE}", "--std=c++17", "--device-as-default-execution-space"]
    if not any(option.startswith("--fmad") for option in options):
        chosen.append("--fmad=false")
    result, program = nvrtc.nvrtcCreateProgram((PRELUDE + source).encode(), b"case.cu", 0, [], [])
    assert not int(result), result
    every = [option.encode() for option in (*chosen, *options)]
    (result,) = nvrtc.nvrtcCompileProgram(program, len(every), every)
    if int(result):
        log = b" " * nvrtc.nvrtcGetProgramLogSize(program)[1]
        nvrtc.nvrtcGetProgramLog(program, log)
        raise Refused(f"{result.name}: {log.decode(errors='replace')}")
    text = b" " * nvrtc.nvrtcGetPTXSize(program)[1]
    nvrtc.nvrtcGetPTX(program, text)
    nvrtc.nvrtcDestroyProgram(program)
    return text


def module(source: str, *options: str) -> Any:
    """That source, loaded into the current context."""
    text, size = ptx(source, *options), 2000
    log = bytearray(size)
    choices = [driver.CUjit_option.CU_JIT_ERROR_LOG_BUFFER, driver.CUjit_option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES]
    result, loaded = driver.cuModuleLoadDataEx(text, 2, choices, [log, size])
    if int(result):
        raise Refused(f"cuModuleLoadDataEx: {result.name}: {log.decode(errors='replace').rstrip(chr(0))}")
    return loaded


def function(of: Any, name: str) -> Any:
    return call("cuModuleGetFunction", of, name.encode())


class Memory:
    """Device memory that holds `data`, for as long as the object lives."""

    def __init__(self, data: bytes) -> None:
        self.size = len(data)
        self.address = int(call("cuMemAlloc", max(self.size, 1)))
        if data:
            call("cuMemcpyHtoD", self.address, data, self.size)

    def read(self) -> bytes:
        return read(self.address, self.size)

    def write(self, data: bytes, offset: int = 0) -> None:
        call("cuMemcpyHtoD", self.address + offset, data, len(data))

    def free(self) -> None:
        call("cuMemFree", self.address)


def read(address: int, size: int) -> bytes:
    """Device memory, by a copy that waits."""
    back = bytearray(size)
    if size:
        call("cuMemcpyDtoH", back, address, size)
    return bytes(back)


KINDS: dict[type, Any] = {int: ctypes.c_void_p, float: ctypes.c_float}


def parameters(*values: Any) -> Any:
    """Kernel parameters: integers and memory are 8 bytes, a float is an f32, ctypes values are themselves."""
    plain = [value.address if isinstance(value, Memory) else value for value in values]
    kinds = tuple(KINDS.get(type(value), type(value)) for value in plain)
    return (tuple(getattr(value, "value", value) for value in plain), kinds)


Shape = int | tuple[int, int, int]


def launch(
    kernel: Any, *values: Any, grid: Shape = 1, block: Shape = 1, shared: int = 0, stream: Any = 0, wait: bool = True
) -> None:
    """A launch with these parameters; waits for the stream unless told otherwise."""
    shape = [one if isinstance(one, tuple) else (one, 1, 1) for one in (grid, block)]
    call("cuLaunchKernel", kernel, *shape[0], *shape[1], shared, stream, parameters(*values), 0)
    if wait:
        call("cuStreamSynchronize", stream)
