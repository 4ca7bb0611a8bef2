"""Asks every question that can be answered, after every kind of call that can change an answer, in two threads."""

from __future__ import annotations

import ctypes
import json
import os
import sys
from pathlib import Path
from typing import Any

from cuda.bindings import driver

from tests.conformance import gpu
from tests.vm.calls import Threads, tell
from tests.vm.world import SOURCE

DEVICE = driver.CUdevice_attribute
FUNCTION = driver.CUfunction_attribute
SHARED = FUNCTION.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES


LIBRARY = ctypes.CDLL("libcuda.so.1")
SYMBOLS = (
    *("cuLaunchKernel", "cuLaunchKernel_ptsz", "cuFuncGetAttribute", "cuFuncSetAttribute"),
    *("cuMemAlloc", "cuMemAlloc_v2", "cuGetProcAddress", "cuGetProcAddress_v2"),
)
EXPORTED = {ctypes.cast(getattr(LIBRARY, name), ctypes.c_void_p).value: name for name in SYMBOLS}
# Names of the same length after one another, the same with another version or flag, and what there is not.
LOOKED_UP = (
    *((b"cuFuncGetAttribute", 12000, 0), (b"cuFuncSetAttribute", 12000, 0), (b"cuFuncSetAttribute", 2000, 0)),
    *((b"cuLaunchKernel", 12000, 0), (b"cuLaunchKernel", 12000, 2), (b"cuLaunchKernel", 12000, 64)),
    *((b"cuMemAlloc", 2000, 0), (b"cuMemAlloc", 12000, 0), (b"cuGetProcAddress", 11030, 0)),
    *((b"cuGetProcAddress", 12000, 0), (b"cuNoSuchThing", 12000, 0), (b"", 12000, 0)),
)


class World:
    """Contexts, a module, its kernel and a stream; handles are told by what they stand for."""

    def __init__(self) -> None:
        self.device = gpu.start()
        self.primary = gpu.call("cuCtxGetCurrent")
        self.contexts: list[Any] = []
        self.names = {int(self.primary): "primary", 0: "none"}
        self.load()
        self.stream = gpu.call("cuStreamCreate", 1)
        self.text = ctypes.create_string_buffer(64)

    def load(self) -> None:
        gpu.call("cuCtxSetCurrent", self.primary)
        self.library = gpu.call("cuLibraryLoadData", gpu.ptx(SOURCE), None, None, 0, None, None, 0)
        self.kernel = gpu.call("cuLibraryGetKernel", self.library, b"shared")
        self.module = gpu.module(SOURCE)
        self.function = gpu.function(self.module, "shared")

    def ask(self) -> list[Any]:
        return [self._once() for _ in range(3)]

    def _once(self) -> list[Any]:
        """Everything, with statuses."""
        limits = driver.CUlimit
        return [
            self._told("cuCtxGetCurrent"),
            self._told("cuCtxGetDevice"),
            self._told("cuCtxGetFlags"),
            self._told("cuCtxGetApiVersion", self.primary),
            self._told("cuCtxGetLimit", limits.CU_LIMIT_STACK_SIZE),
            self._told("cuCtxGetLimit", limits.CU_LIMIT_PRINTF_FIFO_SIZE),
            self._told("cuCtxGetStreamPriorityRange"),
            self._told("cuDeviceGetCount"),
            self._told("cuDeviceGet", 0),
            self._told("cuDeviceGet", 99),
            self._told("cuDeviceTotalMem", self.device),
            self._told("cuDeviceGetAttribute", DEVICE.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, self.device),
            self._told("cuDeviceGetAttribute", DEVICE.CU_DEVICE_ATTRIBUTE_WARP_SIZE, self.device),
            self._told("cuDevicePrimaryCtxGetState", self.device),
            self._told("cuDriverGetVersion"),
            self._told("cuGetErrorName", driver.CUresult.CUDA_ERROR_INVALID_VALUE),
            self._told("cuGetErrorString", driver.CUresult.CUDA_ERROR_NOT_READY),
            self._told("cuModuleGetLoadingMode"),
            self._told("cuFuncGetAttribute", SHARED, self.function),
            self._told("cuFuncGetAttribute", FUNCTION.CU_FUNC_ATTRIBUTE_NUM_REGS, self.function),
            self._told("cuKernelGetAttribute", SHARED, self.kernel, self.device),
            self._told("cuOccupancyMaxActiveBlocksPerMultiprocessor", self.function, 256, 0),
            self._told("cuOccupancyMaxActiveBlocksPerMultiprocessor", self.function, 256, 40000),
            self._told("cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", self.function, 128, 0, 0),
            self._told("cuOccupancyAvailableDynamicSMemPerBlock", self.function, 1, 128),
            self._told("cuStreamGetFlags", self.stream),
            self._told("cuStreamGetPriority", self.stream),
            self._told("cuStreamIsCapturing", self.stream),
            self._told("cuStreamIsCapturing", 0),
            *self._looked_up(),
        ]

    def _looked_up(self) -> list[Any]:
        """Entry points by name, told by the exported function that they are; all names lie in the same memory."""
        said = []
        for name, version, flags in LOOKED_UP:
            self.text.value = name
            for more in ([], [None], [ctypes.c_int(77)]):  # the first version, and the second with a status and without
                address = ctypes.c_void_p(77)
                look_up = LIBRARY.cuGetProcAddress_v2 if more else LIBRARY.cuGetProcAddress
                given = [ctypes.byref(status) if status is not None else None for status in more]
                result = look_up(self.text, ctypes.byref(address), version, ctypes.c_uint64(flags), *given)
                told = [status.value for status in more if status is not None]
                said.append([result, EXPORTED.get(address.value, address.value), told])
        return said

    def _told(self, name: str, *args: Any) -> Any:
        status, *values = getattr(driver, name)(*args)
        if int(status):
            return str(status.name)
        return [self.names[int(value)] if isinstance(value, driver.CUcontext) else str(value) for value in values]

    def create(self) -> str:
        self.contexts.append(gpu.call("cuCtxCreate", None, driver.CUctx_flags.CU_CTX_SCHED_SPIN, self.device))
        self.names[int(self.contexts[-1])] = f"context {len(self.contexts)}"
        return "made"

    def destroy(self) -> str:
        return gpu.status("cuCtxDestroy", self.contexts.pop()) if self.contexts else "none"

    def current(self, number: int) -> str:
        chosen = [driver.CUcontext(0), self.primary, *self.contexts]
        return gpu.status("cuCtxSetCurrent", chosen[number % len(chosen)])

    def push(self, number: int) -> str:
        chosen = [self.primary, *self.contexts]
        return gpu.status("cuCtxPushCurrent", chosen[number % len(chosen)])

    def pop(self) -> str:
        return gpu.status("cuCtxPopCurrent")

    def limit(self, size: int) -> str:
        return gpu.status("cuCtxSetLimit", driver.CUlimit.CU_LIMIT_STACK_SIZE, size)

    def function_attribute(self, size: int) -> str:
        return gpu.status("cuFuncSetAttribute", self.function, SHARED, size)

    def kernel_attribute(self, size: int) -> str:
        return gpu.status("cuKernelSetAttribute", SHARED, size, self.kernel, self.device)

    def reload(self) -> list[Any]:
        """What is asked of code that has just gone is no answer of before."""
        gpu.call("cuCtxSetCurrent", self.primary)
        said = self._of_code()
        said.append(gpu.status("cuModuleUnload", self.module))
        said += self._of_code()
        said.append(gpu.status("cuLibraryUnload", self.library))
        said += self._of_code()
        self.load()
        return said

    def _of_code(self) -> list[Any]:
        return [
            self._told("cuFuncGetAttribute", SHARED, self.function),
            self._told("cuKernelGetAttribute", SHARED, self.kernel, self.device),
        ]

    def retain(self) -> str:
        return gpu.status("cuDevicePrimaryCtxRetain", self.device)

    def flags(self, value: int) -> str:
        return gpu.status("cuDevicePrimaryCtxSetFlags", self.device, value)

    def renew_stream(self, flags: int) -> list[Any]:
        gpu.call("cuCtxSetCurrent", self.primary)
        said = [self._told("cuStreamGetFlags", self.stream), gpu.status("cuStreamDestroy", self.stream)]
        said.append(self._told("cuStreamGetFlags", self.stream))
        self.stream = gpu.call("cuStreamCreate", flags)
        return said

    def begin_capture(self, mode: int) -> str:
        return gpu.status("cuStreamBeginCapture", self.stream, driver.CUstreamCaptureMode(mode))

    def end_capture(self) -> str:
        return gpu.status("cuStreamEndCapture", self.stream)

    def child(self) -> int:
        """In a forked child the driver is not usable, and says so."""
        told = gpu.status("cuCtxGetDevice")
        process = os.fork()
        if process == 0:
            os._exit(0 if gpu.status("cuCtxGetDevice") != told and gpu.status("cuCtxGetCurrent") != told else 1)
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])

    def sleep(self) -> str:
        """Frozen and thawed, as by a keeper; natively nothing."""
        if folder := os.environ.get("TORPOR_JOB_DIR"):
            from torpor.errors import StepFailed
            from torpor.keeper.control import ControlClient

            with ControlClient(Path(folder) / "ctl", os.getpid()) as control:
                before = control.hello().vm["answered"]
                try:
                    control.freeze(10)
                except StepFailed:  # while a stream is captured
                    return "slept"
                control.thaw()
                self._once()
                after = control.hello().vm["answered"]
            if os.environ["TORPOR_VM"] == "check" and after != before:
                return f"{after - before} answers from before the sleep"
        return "slept"

    def many(self) -> list[Any]:
        """More questions of a kind than a thread has places for answers."""
        questions = [("cuGetErrorName", status) for status in driver.CUresult]
        questions += [("cuDeviceGetAttribute", attribute, self.device) for attribute in DEVICE]
        questions += [
            ("cuOccupancyMaxActiveBlocksPerMultiprocessor", self.function, 32 * threads, size)
            for threads in range(1, 9)
            for size in range(0, 48 << 10, 6 << 10)
        ]
        return [self._told(*question) for question in questions * 2]

    def reset(self) -> list[Any]:
        """The primary context is another one afterwards, maybe at the same address, with nothing in it."""
        gpu.call("cuCtxSetCurrent", self.primary)
        said = [
            self._told("cuDevicePrimaryCtxGetState", self.device),
            gpu.status("cuDevicePrimaryCtxReset", self.device),
        ]
        said.append(self._told("cuDevicePrimaryCtxGetState", self.device))
        self.primary = gpu.call("cuDevicePrimaryCtxRetain", self.device)
        self.names[int(self.primary)] = "primary"
        self.load()
        self.stream = gpu.call("cuStreamCreate", 1)
        return said


def main() -> None:
    steps = json.load(sys.stdin)
    gpu.call("cuInit", 0)
    world = World()
    threads = Threads(2, world.primary)
    said = [threads(thread, world.ask) for thread in (0, 1)]
    for thread, name, *given in steps:
        said.append(threads(thread, lambda name=name, given=given: getattr(world, name)(*given)))
        said += [threads(asked, world.ask) for asked in (0, 1)]
    threads.end()
    tell(said)


if __name__ == "__main__":
    main()
