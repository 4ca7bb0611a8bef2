"""Questions that the job answers itself (`--vm answers`), and the calls that change an answer. Annotated by hand.

A question's inputs are what it is asked with, and what its groups stand for. After a call that changes a group every
answer that depends on it is asked for anew. Only successful answers are kept; a null result pointer is the driver's to
refuse.
"""

from __future__ import annotations

import re

GROUPS: dict[str, str] = {
    "thread": "which context is current in this thread",
    "context": "which contexts there are, and their flags",
    "function": "code that is loaded, and the attributes of functions",
    "limit": "limits of contexts, and the like",
    "stream": "which streams there are",
    "capture": "which streams are captured; while any is, the driver is asked",
}
"""What an answer may depend on besides its arguments. All of them change when a job wakes, perhaps on another GPU."""

QUESTIONS: dict[str, tuple[str, ...]] = {
    "cuCtxGetCurrent": ("thread", "context"),
    "cuCtxGetDevice": ("thread", "context"),
    "cuCtxGetDevice_v2": ("thread", "context"),
    "cuCtxGetApiVersion": ("thread", "context"),
    "cuCtxGetFlags": ("thread", "context", "limit"),
    "cuCtxGetLimit": ("thread", "context", "limit"),
    "cuCtxGetStreamPriorityRange": ("thread", "context"),
    "cuDeviceGet": ("context",),
    "cuDeviceGetAttribute": ("context",),
    "cuDeviceGetCount": ("context",),
    "cuDevicePrimaryCtxGetState": ("context", "limit"),  # flags, which a context may set
    "cuDeviceTotalMem_v2": ("context",),
    "cuDriverGetVersion": ("context",),
    "cuFuncGetAttribute": ("thread", "context", "function"),
    "cuGetErrorName": ("context",),
    "cuGetErrorString": ("context",),
    "cuKernelGetAttribute": ("context", "function"),
    "cuModuleGetLoadingMode": ("context",),
    "cuOccupancyAvailableDynamicSMemPerBlock": ("thread", "context", "function", "limit"),
    "cuOccupancyMaxActiveBlocksPerMultiprocessor": ("thread", "context", "function", "limit"),
    "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags": ("thread", "context", "function", "limit"),
    "cuStreamGetDevice": ("thread", "context", "stream", "capture"),
    "cuStreamGetFlags": ("thread", "context", "stream", "capture"),
    "cuStreamGetPriority": ("thread", "context", "stream", "capture"),
    "cuStreamIsCapturing": ("thread", "context", "stream", "capture"),
}

LOOKUPS: dict[str, tuple[str, ...]] = {"cuGetProcAddress": ("context",), "cuGetProcAddress_v2": ("context",)}
"""Questions by a name that our data has. Their answer is ours, since entry points are handed out as ours."""

# (groups, pattern on the exported symbol). Every line that matches counts.
CHANGES: tuple[tuple[tuple[str, ...], str], ...] = (
    (("thread",), r"cuCtx(SetCurrent|PushCurrent|PopCurrent)(_v2)?"),
    (("thread", "context"), r"cu\w*Ctx(Create|Destroy|Attach|Detach)(_v\d)?|cuCtxFromGreenCtx"),
    (("thread", "context"), r"cuDevicePrimaryCtx(Retain|Release|Reset|SetFlags)(_v2)?|cuInit"),
    (("function",), r"cuModuleUnload|cuLibraryUnload|cu(Func|Kernel)Set\w+|cu\w*Ctx(Destroy|Detach)(_v2)?"),
    (("function",), r"cuDevicePrimaryCtx(Release|Reset)(_v2)?"),
    (("limit",), r"cuCtxSet(Limit|CacheConfig|SharedMemConfig|Flags)|cuCtxResetPersistingL2Cache"),
    (("stream",), r"cu(Green)?(Ctx)?Stream(Create|Destroy)\w*|cuStream(SetAttribute|CopyAttributes)(_ptsz)?"),
    (("capture",), r"cuStream(Begin|End)Capture\w*|cuStreamUpdateCaptureDependencies\w*"),
)

SETS: dict[str, str] = {"cuCtxSetCurrent": "cuCtxGetCurrent"}
"""Calls that set, for the calling thread, what a question without arguments asks: left out where that is the answer."""

_OF_CONTEXTS = ("context", "function", "limit")
_OF_CURRENT = ("thread", *_OF_CONTEXTS)  # in a thread without a context each call is for the driver to judge

SETTERS: dict[str, tuple[str, ...]] = {
    "cuFuncSetAttribute": _OF_CURRENT,
    "cuFuncSetCacheConfig": _OF_CURRENT,
    "cuKernelSetAttribute": _OF_CONTEXTS,
    "cuKernelSetCacheConfig": _OF_CONTEXTS,
}
"""Calls that change the group "function" alone: the same again, in the same thread, is left out while nothing of these
groups has changed."""


def changes_of(symbol: str) -> tuple[str, ...]:
    """The groups that a call of the symbol changes, in the order of `GROUPS`."""
    found = {group for groups, pattern in CHANGES if re.fullmatch(pattern, symbol) for group in groups}
    return tuple(group for group in GROUPS if group in found)
