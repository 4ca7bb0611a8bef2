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
    **_lines("cuMemAllocManaged cuLibraryGetManaged", _MANAGED),
    **_lines(
        "cuMemImportFromShareableHandle cuMulticastCreate cuMemMap cuMemUnmap cuMemRelease",
        "counts imported memory and multicast objects, and mappings of them, which cannot be restored",
    ),
    **_lines(
        "cuIpcOpenMemHandle cuIpcOpenMemHandle_v2 cuIpcCloseMemHandle cuIpcOpenEventHandle cuIpcGetEventHandle "
        "cuEventDestroy cuEventDestroy_v2 cuMemPoolImportFromShareableHandle cuMemPoolDestroy",
        _IPC,
    ),
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
_OWNER = "a context's memory ends with it, and a freeze waits for every context"
_PEER = "blocks are opened to the devices of peers"


def _overrides(symbols: str, reason: str, gated: bool = True) -> dict[str, Door]:
    return {symbol: Door("override", reason, gated=gated) for symbol in symbols.split()}


# Device memory that Torpor places itself; bodies in native/interposer/arena/.
ARENA: dict[str, Door] = {
    **_overrides("cuMemAlloc_v2 cuMemAllocPitch_v2", _PLACE),
    **_overrides("cuMemFree_v2", "waits for the GPU outside of the gate, then frees inside", gated=False),
    **_overrides("cuMemGetAddressRange_v2 cuPointerGetAttribute cuPointerGetAttributes", _POINTER),
    **_overrides("cuMemRetainAllocationHandle", "memory from cuMemAlloc has no handle for the program"),
    **_overrides("cuIpcGetMemHandle", "blocks cannot be shared by this kind of handle; refused for arena memory"),
    **_overrides("cuCtxCreate cuCtxCreate_v2 cuCtxCreate_v3 cuCtxCreate_v4 cuCtxDestroy cuCtxDestroy_v2", _OWNER),
    **_overrides(
        "cuDevicePrimaryCtxRelease cuDevicePrimaryCtxRelease_v2 cuDevicePrimaryCtxReset cuDevicePrimaryCtxReset_v2",
        _OWNER,
    ),
    **_overrides("cuCtxEnablePeerAccess cuCtxDisablePeerAccess", _PEER),
}

HOOKS: dict[str, Door] = {**PROCESS, **RESIDUAL, **ARENA}
