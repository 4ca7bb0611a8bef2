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
    **_lines("cuMemAllocManaged", _MANAGED),
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

# Device memory that Torpor places itself; bodies in native/interposer/arena/.
ARENA: dict[str, Door] = {}

HOOKS: dict[str, Door] = {**PROCESS, **RESIDUAL, **ARENA}
