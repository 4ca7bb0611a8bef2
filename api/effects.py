"""What each call does to the GPU or to the driver's state. Annotated by hand; the first pattern that matches decides.

Patterns are matched from the start of the exported symbol. Variants (`_v2`, `_ptsz`) share the effect of their base.
"""

from __future__ import annotations

import re
from functools import cache

ANY_VARIANT = r"(_v\d+)?(_pt[ds][sz])?$"

# (effect, pattern on the base name). A base that no line names has the effect "none": it answers a question, or
# changes only host memory, thread-local or descriptive state.
EFFECTS: tuple[tuple[str, str], ...] = (
    ("asks", r"cu(Stream|Event)Query|cuEventElapsedTime|cuMemGetInfo|cuMem(Range|Pool)GetAttributes?"),
    ("asks", r"cuDeviceGetGraphMemAttribute|cuPointerGetAttributes?|cuMemGetAddressRange"),
    ("steers", r"cuGraphExec\w*Set(Params|Event)|cuGraphNodeSetEnabled|cuProfiler(Start|Stop)|cuTexRefSet\w*"),
    ("steers", r"cuSurfRefSetArray|cuParamSet(Size|TexRef|[ifv])|cuFuncSet(BlockShape|SharedSize)"),
    ("steers", r"cuDeviceSetGraphMemAttribute"),
    ("steers", r"cu(Func|Kernel)Set(Attribute|CacheConfig|SharedMemConfig)|cuStream(SetAttribute|CopyAttributes)"),
    ("steers", r"cuCtxSet(CacheConfig|SharedMemConfig|Flags)"),
    ("waits", r"cu(Stream|Event|Ctx)Synchronize|cuEGLStreamConsumerAcquireFrame"),
    ("captures", r"cuStream(BeginCapture|BeginCaptureToGraph|EndCapture)|cuStreamUpdateCaptureDependencies"),
    ("submits", r"cuLaunch(|Grid|GridAsync|Kernel|KernelEx|CooperativeKernel|CooperativeKernelMultiDevice|HostFunc)"),
    ("submits", r"cuMem(cpy|set)\w*"),
    ("submits", r"cuMem(Prefetch|Discard|DiscardAndPrefetch|BatchDecompress)\w*"),
    ("submits", r"cuStream(AddCallback|AttachMemAsync|BatchMemOp|WaitEvent|(Wait|Write)Value(32|64))"),
    ("submits", r"cuEventRecord(WithFlags)?|cu(Green)?Ctx(RecordEvent|WaitEvent)"),
    ("submits", r"cu(Signal|Wait)ExternalSemaphoresAsync"),
    ("submits", r"cuGraph(Launch|Upload)"),
    ("submits", r"cuGraphics(Map|Unmap)Resources|cuGL(Map|Unmap)BufferObject(Async)?"),
    ("submits", r"cuEGLStream(ConsumerReleaseFrame|ProducerPresentFrame|ProducerReturnFrame)"),
    ("submits", r"cuCtxResetPersistingL2Cache|cuFlushGPUDirectRDMAWrites"),
    ("maps", r"cuMem(Map|Unmap|SetAccess|MapArrayAsync|AddressReserve|AddressFree|Advise)"),
    ("maps", r"cuMulticast(AddDevice|BindAddr|BindMem|Unbind)|cuCtx(Enable|Disable)PeerAccess"),
    ("maps", r"cuMemHost(Register|Unregister)|cuExternalMemoryGetMapped\w*"),
    ("maps", r"cuMemPool(SetAccess|TrimTo)|cuDeviceGraphMemTrim|cuCtxSetLimit"),
    ("creates", r"cuMem(Alloc\w*|HostAlloc|Create|RetainAllocationHandle|ImportFromShareableHandle)"),
    ("creates", r"cuMemExportToShareableHandle|cuMemGetHandleForAddressRange|cuMulticastCreate"),
    ("creates", r"cuMemPool(Create|ImportFromShareableHandle|ImportPointer|ExportToShareableHandle|ExportPointer)"),
    ("creates", r"cu(Array|Array3D|MipmappedArray|TexRef|TexObject|SurfObject)Create"),
    ("creates", r"cuIpc(GetMemHandle|OpenMemHandle|GetEventHandle|OpenEventHandle)|cuImportExternal\w*"),
    ("creates", r"cu(Green)?CtxCreate|cuCtxAttach|cuCtxFromGreenCtx|cuDevicePrimaryCtxRetain|cuGreenCtxStreamCreate"),
    ("creates", r"cuStreamCreate(WithPriority)?|cuEventCreate(FromEGLSync)?"),
    ("creates", r"cuModuleLoad\w*|cuLibraryLoad\w*|cuFuncLoad|cuGraphInstantiate\w*|cuGraphExecUpdate"),
    ("creates", r"cu(Module|Library)Get(Global|Managed|Function|Module|UnifiedFunction)|cuKernelGetFunction"),
    ("creates", r"cuGraphAddMemAllocNode"),
    ("creates", r"cuGraphics(GL|EGL|VDPAU)Register\w*|cuGLRegisterBufferObject|cu(GL|VDPAU)CtxCreate|cuGLInit"),
    ("creates", r"cuEGLStream(Consumer|Producer)Connect(WithFlags)?"),
    ("destroys", r"cuMem(Free|FreeHost|FreeAsync|Release|PoolDestroy)|cuIpcCloseMemHandle|cuDestroyExternal\w*"),
    ("destroys", r"cu(Array|MipmappedArray|TexRef|TexObject|SurfObject|Stream|Event|GreenCtx|Ctx|GraphExec)Destroy"),
    ("destroys", r"cuCtxDetach|cuDevicePrimaryCtx(Release|Reset)|cuModuleUnload|cuLibraryUnload"),
    ("destroys", r"cuGraphDestroy|cuGraphicsUnregisterResource|cuGLUnregisterBufferObject"),
    ("destroys", r"cuEGLStream(Consumer|Producer)Disconnect"),
)  # fmt: skip

MEANING: dict[str, str] = {
    "none": "answers a question or changes only host, thread-local or descriptive state",
    "asks": "reads what lies on the GPU or where the driver maps it, which is gone while a job is away",
    "steers": "changes what work means that is submitted later, and must not change earlier work",
    "waits": "waits for work that is already submitted; a waiting thread must not hold up a freeze",
    "captures": "starts, ends or steers a capture; none may begin between the check and the freeze",
    "submits": "submits work to a GPU",
    "maps": "changes what is mapped where, or who may access it",
    "creates": "creates an object that holds device or pinned memory, or loads code on first use",
    "destroys": "destroys an object that holds memory; may wait for its work",
}


# Questions that no work on the GPU changes the answer to.
_STEADY = r"cuPointerGetAttributes?|cuMemGetAddressRange"


def settles(symbol: str) -> bool:
    """Whether the driver must have all earlier work before this call, or its answer may come from before that work."""
    effect = effect_of(symbol)
    return effect != "none" and not re.match(f"({_STEADY}){ANY_VARIANT}", symbol)


@cache
def effect_of(symbol: str) -> str:
    """The effect of an exported symbol: a key of `MEANING`."""
    for effect, pattern in EFFECTS:
        if re.match(f"({pattern}){ANY_VARIANT}", symbol):
            return effect
    return "none"
