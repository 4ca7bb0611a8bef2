"""Which family a symbol belongs to. Annotated by hand; the first pattern that matches the base name decides."""

from __future__ import annotations

import re
from functools import cache

FAMILIES: tuple[tuple[str, str, str], ...] = (
    # family, what it holds, pattern on the symbol's name
    ("debugger", "cuda-gdb's private entry points and data", r"cudbg"),
    ("interop", "OpenGL, EGL, VDPAU and graphics resources", r"cu(GL|EGL|VDPAU|Graphics|EventCreateFromEGL)"),
    ("checkpoint", "the driver's own checkpoint and restore", r"cuCheckpoint"),
    ("external", "memory and semaphores of other APIs", r"cu(Import|Destroy|Signal|Wait)?External"),
    ("ipc", "sharing memory and events between processes", r"cuIpc"),
    ("pool", "stream-ordered allocation and memory pools",
     r"cuMem(Pool|AllocAsync|AllocFromPoolAsync|FreeAsync|GetDefaultMemPool|GetMemPool|SetMemPool)"
     r"|cuDevice(Get|Set)(Default)?MemPool|cuDevice(GraphMemTrim|(Get|Set)GraphMemAttribute)"),
    ("vmm", "address ranges, physical handles, mappings, multicast",
     r"cuMem(Address|Create|Release|Map|Unmap|SetAccess|GetAccess|Export|Import|GetAllocation|Retain|GetHandle)|cuMulticast"),
    ("copy", "copies, fills, prefetches and discards", r"cuMem(cpy|set|Prefetch|Discard|BatchDecompress)"),
    ("memory", "linear, managed and pinned memory, pointer queries", r"cuMem|cuPointer"),
    ("array", "arrays, textures, surfaces, tensor maps",
     r"cu(Array|Mipmapped|Tex|Surf|TensorMap|ModuleGet(Tex|Surf)Ref|ParamSetTexRef)"),
    ("graph", "graphs, their nodes and user objects", r"cu(Graph|UserObject)"),
    ("capture", "recording a stream into a graph",
     r"cuStream(BeginCapture|EndCapture|IsCapturing|GetCaptureInfo|UpdateCapture)|cuThreadExchangeStreamCapture"),
    ("stream", "streams and memory operations in them", r"cuStream"),
    ("event", "events", r"cuEvent"),
    ("launch", "kernel launches and host functions", r"cuLaunch|cuParam|cuFuncSet(BlockShape|SharedSize)$"),
    ("module", "modules, libraries, kernels, functions, linking, occupancy",
     r"cu(Module|Library|Kernel|Func|Link|Occupancy)"),
    ("context", "contexts, green contexts, peer access, limits",
     r"cu(Ctx|GreenCtx|DevicePrimary|DevResource|DevSmResource|DeviceGetDevResource|DeviceCanAccessPeer)"),
    ("device", "devices and their properties", r"cuDevice|cuFlushGPUDirectRDMAWrites"),
    ("driver", "initialisation, version, errors, entry points, logs, profiler",
     r"cu(Init$|DriverGetVersion|GetError|GetProcAddress|GetExportTable|Logs|Profiler|Coredump)"),
)  # fmt: skip

NAMES: tuple[str, ...] = tuple(name for name, _, _ in FAMILIES)


@cache
def family_of(symbol: str) -> str:
    """The family of an exported symbol; raises KeyError for a symbol that no pattern covers."""
    for name, _, pattern in FAMILIES:
        if re.match(pattern, symbol):
            return name
    raise KeyError(f"{symbol}: no family in api/families.py matches")
