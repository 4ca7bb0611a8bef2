"""Symbols with a body written by hand, one line each. Every other door follows from the effect (`api/doors.py`).

A hook observes: the real function always runs. An override decides. The body is
`extern "C" CUresult torpor_hook_<symbol>(…)`, declared in `generated/hooks.h`, and calls `torpor::real::<symbol>`.
`gated=True` opens a gate scope around the body; without it the body opens its own where it needs one.
"""

from __future__ import annotations

from api.model import Door

_START = "the control thread starts after the program's first successful initialisation"
_ENTRY = "entry points that we wrap must be handed out as ours"
_CAPTURE = "counts streams that are being captured: a checkpoint during capture is refused"
_MANAGED = "counts managed memory, which the driver cannot checkpoint"
_VARIABLES = "counts managed variables that the program may never ask for"
_IPC = "counts handles opened from other processes, which cannot be restored"
_EXTERNAL = "counts objects imported from other APIs, which cannot be restored"
_GRAPHICS = "counts resources shared with a graphics API, which cannot be restored"


def _lines(symbols: str, reason: str) -> dict[str, Door]:
    return {symbol: Door("hook", reason, gated=True) for symbol in symbols.split()}


PROCESS: dict[str, Door] = {
    "cuInit": Door("hook", _START),
    "cuGetProcAddress": Door("hook", _ENTRY),
    "cuGetProcAddress_v2": Door("hook", _ENTRY),
}

RESIDUAL: dict[str, Door] = {
    **_lines(
        "cuStreamBeginCapture cuStreamBeginCapture_ptsz cuStreamBeginCapture_v2 cuStreamBeginCapture_v2_ptsz "
        "cuStreamBeginCaptureToGraph cuStreamBeginCaptureToGraph_ptsz cuStreamEndCapture cuStreamEndCapture_ptsz "
        "cuStreamDestroy cuStreamDestroy_v2",
        _CAPTURE,
    ),
    **_lines("cuLibraryGetManaged cuLibraryGetGlobal cuModuleGetGlobal_v2", _MANAGED),
    **_lines("cuModuleLoad cuModuleLoadData cuModuleLoadDataEx cuLibraryLoadData cuLibraryLoadFromFile", _VARIABLES),
    **_lines("cuMulticastCreate", "counts multicast objects, which cannot be restored"),
    **_lines("cuEventDestroy cuEventDestroy_v2 cuMemPoolImportFromShareableHandle", _IPC),
    **_lines(
        "cuImportExternalMemory cuDestroyExternalMemory cuImportExternalSemaphore cuDestroyExternalSemaphore",
        _EXTERNAL,
    ),
    **_lines(
        "cuGraphicsGLRegisterBuffer cuGraphicsGLRegisterImage cuGraphicsEGLRegisterImage "
        "cuGraphicsVDPAURegisterVideoSurface cuGraphicsVDPAURegisterOutputSurface cuGraphicsUnregisterResource",
        _GRAPHICS,
    ),
}

_PLACE = "device memory goes into the arena"
_POINTER = "arena memory must answer as cuMemAlloc memory does"
_HANDLES = "the program's handles of its own memory stay the same when the driver's change"
_SHARE = "blocks are shared between processes of a job by a descriptor, not by the driver's handle"
_OWNER = "a context's memory ends with it, and a freeze waits for every context"
_POOL = "stream-ordered memory goes into the arena, too"
_PEER = "blocks are opened to the devices of peers"


def _overrides(symbols: str, reason: str, gated: bool = True) -> dict[str, Door]:
    return {symbol: Door("override", reason, gated=gated) for symbol in symbols.split()}


# Device memory that Torpor places itself; bodies in native/interposer/arena/.
ARENA: dict[str, Door] = {
    **_overrides("cuMemAlloc_v2 cuMemAllocPitch_v2", _PLACE),
    **_overrides("cuMemFree_v2", "waits for the GPU outside of the gate, then frees inside", gated=False),
    **_overrides("cuMemGetAddressRange_v2 cuPointerGetAttribute cuPointerGetAttributes", _POINTER),
    **_overrides(
        "cuMemCreate cuMemRelease cuMemMap cuMemUnmap cuMemSetAccess cuMemRetainAllocationHandle "
        "cuMemExportToShareableHandle cuMemImportFromShareableHandle cuMemGetAllocationPropertiesFromHandle "
        "cuMemMapArrayAsync cuMemMapArrayAsync_ptsz cuMulticastBindMem",
        _HANDLES,
    ),
    **_overrides("cuIpcGetMemHandle cuIpcOpenMemHandle cuIpcOpenMemHandle_v2", _SHARE),
    **_overrides("cuIpcCloseMemHandle", "waits for the GPU outside of the gate, then unmaps inside", gated=False),
    **_overrides("cuCtxCreate cuCtxCreate_v2 cuCtxCreate_v3 cuCtxCreate_v4 cuCtxDestroy cuCtxDestroy_v2", _OWNER),
    **_overrides(
        "cuDevicePrimaryCtxRelease cuDevicePrimaryCtxRelease_v2 cuDevicePrimaryCtxReset cuDevicePrimaryCtxReset_v2",
        _OWNER,
    ),
    **_overrides("cuCtxEnablePeerAccess cuCtxDisablePeerAccess", _PEER),
    **_overrides(
        "cuMemAllocAsync cuMemAllocAsync_ptsz cuMemAllocFromPoolAsync cuMemAllocFromPoolAsync_ptsz "
        "cuMemPoolCreate cuMemPoolDestroy cuMemPoolTrimTo cuMemPoolSetAccess "
        "cuMemPoolSetAttribute cuMemPoolGetAttribute",
        _POOL,
    ),
    **_overrides("cuMemFreeAsync cuMemFreeAsync_ptsz", "may wait for the GPU, outside of the gate", gated=False),
}

_EVENT = "events are shared between processes of a job by questions to the one that recorded them"
_ELSEWHERE = "refuses events that processes share: nobody could follow who records them"

# Events between processes; bodies in native/interposer/share/.
EVENTS: dict[str, Door] = {
    **_overrides(
        "cuEventCreate cuIpcGetEventHandle cuIpcOpenEventHandle "
        "cuEventRecord_ptsz cuEventRecordWithFlags_ptsz cuStreamWaitEvent_ptsz",
        _EVENT,
    ),
    **_overrides(
        "cuCtxRecordEvent cuCtxWaitEvent cuGreenCtxRecordEvent cuGreenCtxWaitEvent cuGraphExecNodeSetParams "
        "cuGraphExecEventRecordNodeSetEvent cuGraphExecEventWaitNodeSetEvent",
        _ELSEWHERE,
    ),
    **_overrides(
        "cuGraphAddEventRecordNode cuGraphAddEventWaitNode cuGraphEventRecordNodeSetEvent "
        "cuGraphEventWaitNodeSetEvent cuGraphAddNode cuGraphAddNode_v2 cuGraphNodeSetParams",
        _ELSEWHERE,
        gated=False,
    ),
}

_HOST_BACKED = "managed memory may be host-backed (`--managed host`): the driver cannot checkpoint its own"

# Managed memory; bodies in native/interposer/managed/.
MANAGED: dict[str, Door] = {
    **_overrides(
        "cuMemAllocManaged cuMemAdvise cuMemAdvise_v2 cuMemPrefetchAsync cuMemPrefetchAsync_ptsz "
        "cuMemPrefetchAsync_v2 cuMemPrefetchAsync_v2_ptsz cuMemPrefetchBatchAsync cuMemPrefetchBatchAsync_ptsz "
        "cuMemDiscardAndPrefetchBatchAsync cuMemDiscardAndPrefetchBatchAsync_ptsz cuMemDiscardBatchAsync "
        "cuMemDiscardBatchAsync_ptsz cuStreamAttachMemAsync cuStreamAttachMemAsync_ptsz "
        "cuMemRangeGetAttribute cuMemRangeGetAttributes",
        _HOST_BACKED,
    ),
}

_PINNED = "large pinned memory lies in files that the keeper saves, and copies of pinned memory are deferred"
_NOT_REGISTERED = "for the driver such memory is registered, for the program it is not"
_REGISTERED = "large memory of the program's own lies in a file that the keeper saves while it is registered"

# Pinned host memory; bodies in native/interposer/pinned/.
PINNED: dict[str, Door] = {
    **_overrides("cuMemHostAlloc cuMemAllocHost cuMemAllocHost_v2 cuMemFreeHost", _PINNED),
    **_overrides("cuMemHostRegister cuMemHostRegister_v2 cuMemHostUnregister", _REGISTERED),
    **_overrides("cuMemHostGetFlags", _NOT_REGISTERED),
}

_DEFER = "work that was right before may be handed to the submitter (`--vm defer`)"
_FUNCTION = "what is set to what it is needs no call; another value changes what a launch means"
_HAPPENED = "a wait for what has happened need not be made"
_FORGET = "what was proven about an object ends with it"

# Work that may wait in a queue of ours; bodies in native/interposer/vm/, which settle it where they do not join it.
DEFERRED: dict[str, Door] = {
    **_overrides(
        "cuLaunchKernel cuLaunchKernelEx cuMemsetD8Async cuMemsetD16Async cuMemsetD32Async cuMemcpyDtoDAsync_v2 "
        "cuMemcpyHtoDAsync_v2 cuMemcpyDtoHAsync_v2 "
        "cuEventRecord cuEventRecordWithFlags cuStreamWaitEvent cuGraphLaunch",
        _DEFER,
    ),
    **_overrides(
        "cuFuncSetAttribute cuKernelSetAttribute cuFuncSetCacheConfig cuKernelSetCacheConfig cuCtxSetCacheConfig",
        _FUNCTION,
    ),
    **_overrides("cuEventQuery", _HAPPENED),
    **_overrides("cuEventSynchronize", "waits for another process outside of the gate, then for the GPU", gated=False),
}

FORGOTTEN: dict[str, Door] = {
    **_lines(
        "cuStreamSetAttribute cuStreamSetAttribute_ptsz cuStreamCopyAttributes cuStreamCopyAttributes_ptsz "
        "cuModuleGetTexRef cuModuleGetSurfRef",
        "a kernel in a graph would not see it",
    ),
    **_lines(
        "cuCtxSetLimit cuCtxSetFlags cuCtxSetSharedMemConfig cuFuncSetSharedMemConfig",
        "graphs of merged launches are made anew",
    ),
    **_lines("cuGraphLaunch_ptsz", "afterwards it is not known where an event was last recorded"),
    **_lines("cuModuleUnload cuLibraryUnload cuGreenCtxDestroy cuCtxDetach cuGraphExecDestroy", _FORGET),
}

DEVICES: dict[str, Door] = _lines(
    "cuDevicePrimaryCtxRetain cuGreenCtxCreate",
    "work for several devices is not deferred: one must not hold up another",
)

HOOKS: dict[str, Door] = {
    **PROCESS,
    **RESIDUAL,
    **ARENA,
    **EVENTS,
    **MANAGED,
    **PINNED,
    **DEFERRED,
    **FORGOTTEN,
    **DEVICES,
}
