# ruff: noqa: E501
"""What cuGetProcAddress picks for a base name, by requested version. Seeded by `python -m gen.seed` from driver API 13000; do not edit."""

from api.model import Answer

ANSWERS: dict[str, tuple[Answer, ...]] = {
    "cuArray3DCreate": (
        Answer(2000, "cuArray3DCreate", "cuArray3DCreate"),
        Answer(3020, "cuArray3DCreate_v2", "cuArray3DCreate_v2"),
    ),
    "cuArray3DGetDescriptor": (
        Answer(2000, "cuArray3DGetDescriptor", "cuArray3DGetDescriptor"),
        Answer(3020, "cuArray3DGetDescriptor_v2", "cuArray3DGetDescriptor_v2"),
    ),
    "cuArrayCreate": (
        Answer(2000, "cuArrayCreate", "cuArrayCreate"),
        Answer(3020, "cuArrayCreate_v2", "cuArrayCreate_v2"),
    ),
    "cuArrayDestroy": (
        Answer(2000, "cuArrayDestroy", "cuArrayDestroy"),
    ),
    "cuArrayGetDescriptor": (
        Answer(2000, "cuArrayGetDescriptor", "cuArrayGetDescriptor"),
        Answer(3020, "cuArrayGetDescriptor_v2", "cuArrayGetDescriptor_v2"),
    ),
    "cuArrayGetMemoryRequirements": (
        Answer(11060, "cuArrayGetMemoryRequirements", "cuArrayGetMemoryRequirements"),
    ),
    "cuArrayGetPlane": (
        Answer(11020, "cuArrayGetPlane", "cuArrayGetPlane"),
    ),
    "cuArrayGetSparseProperties": (
        Answer(11010, "cuArrayGetSparseProperties", "cuArrayGetSparseProperties"),
    ),
    "cuCheckpointProcessCheckpoint": (
        Answer(12080, "cuCheckpointProcessCheckpoint", "cuCheckpointProcessCheckpoint"),
    ),
    "cuCheckpointProcessGetRestoreThreadId": (
        Answer(12080, "cuCheckpointProcessGetRestoreThreadId", "cuCheckpointProcessGetRestoreThreadId"),
    ),
    "cuCheckpointProcessGetState": (
        Answer(12080, "cuCheckpointProcessGetState", "cuCheckpointProcessGetState"),
    ),
    "cuCheckpointProcessLock": (
        Answer(12080, "cuCheckpointProcessLock", "cuCheckpointProcessLock"),
    ),
    "cuCheckpointProcessRestore": (
        Answer(12080, "cuCheckpointProcessRestore", "cuCheckpointProcessRestore"),
    ),
    "cuCheckpointProcessUnlock": (
        Answer(12080, "cuCheckpointProcessUnlock", "cuCheckpointProcessUnlock"),
    ),
    "cuCoredumpGetAttribute": (
        Answer(12010, "cuCoredumpGetAttribute", "cuCoredumpGetAttribute"),
    ),
    "cuCoredumpGetAttributeGlobal": (
        Answer(12010, "cuCoredumpGetAttributeGlobal", "cuCoredumpGetAttributeGlobal"),
    ),
    "cuCoredumpSetAttribute": (
        Answer(12010, "cuCoredumpSetAttribute", "cuCoredumpSetAttribute"),
    ),
    "cuCoredumpSetAttributeGlobal": (
        Answer(12010, "cuCoredumpSetAttributeGlobal", "cuCoredumpSetAttributeGlobal"),
    ),
    "cuCtxAttach": (
        Answer(2000, "cuCtxAttach", "cuCtxAttach"),
    ),
    "cuCtxCreate": (
        Answer(2000, "cuCtxCreate", "cuCtxCreate"),
        Answer(3020, "cuCtxCreate_v2", "cuCtxCreate_v2"),
        Answer(11040, "cuCtxCreate_v3", "cuCtxCreate_v3"),
        Answer(12050, "cuCtxCreate_v4", "cuCtxCreate_v4"),
    ),
    "cuCtxDestroy": (
        Answer(2000, "cuCtxDestroy", "cuCtxDestroy"),
        Answer(4000, "cuCtxDestroy_v2", "cuCtxDestroy_v2"),
    ),
    "cuCtxDetach": (
        Answer(2000, "cuCtxDetach", "cuCtxDetach"),
    ),
    "cuCtxDisablePeerAccess": (
        Answer(4000, "cuCtxDisablePeerAccess", "cuCtxDisablePeerAccess"),
    ),
    "cuCtxEnablePeerAccess": (
        Answer(4000, "cuCtxEnablePeerAccess", "cuCtxEnablePeerAccess"),
    ),
    "cuCtxFromGreenCtx": (
        Answer(12040, "cuCtxFromGreenCtx", "cuCtxFromGreenCtx"),
    ),
    "cuCtxGetApiVersion": (
        Answer(3020, "cuCtxGetApiVersion", "cuCtxGetApiVersion"),
    ),
    "cuCtxGetCacheConfig": (
        Answer(3020, "cuCtxGetCacheConfig", "cuCtxGetCacheConfig"),
    ),
    "cuCtxGetCurrent": (
        Answer(4000, "cuCtxGetCurrent", "cuCtxGetCurrent"),
    ),
    "cuCtxGetDevResource": (
        Answer(12040, "cuCtxGetDevResource", "cuCtxGetDevResource"),
    ),
    "cuCtxGetDevice": (
        Answer(2000, "cuCtxGetDevice", "cuCtxGetDevice"),
        Answer(13000, "cuCtxGetDevice_v2", "cuCtxGetDevice_v2"),
    ),
    "cuCtxGetExecAffinity": (
        Answer(11040, "cuCtxGetExecAffinity", "cuCtxGetExecAffinity"),
    ),
    "cuCtxGetFlags": (
        Answer(7000, "cuCtxGetFlags", "cuCtxGetFlags"),
    ),
    "cuCtxGetId": (
        Answer(12000, "cuCtxGetId", "cuCtxGetId"),
    ),
    "cuCtxGetLimit": (
        Answer(3010, "cuCtxGetLimit", "cuCtxGetLimit"),
    ),
    "cuCtxGetSharedMemConfig": (
        Answer(4020, "cuCtxGetSharedMemConfig", "cuCtxGetSharedMemConfig"),
    ),
    "cuCtxGetStreamPriorityRange": (
        Answer(5050, "cuCtxGetStreamPriorityRange", "cuCtxGetStreamPriorityRange"),
    ),
    "cuCtxPopCurrent": (
        Answer(2000, "cuCtxPopCurrent", "cuCtxPopCurrent"),
        Answer(4000, "cuCtxPopCurrent_v2", "cuCtxPopCurrent_v2"),
    ),
    "cuCtxPushCurrent": (
        Answer(2000, "cuCtxPushCurrent", "cuCtxPushCurrent"),
        Answer(4000, "cuCtxPushCurrent_v2", "cuCtxPushCurrent_v2"),
    ),
    "cuCtxRecordEvent": (
        Answer(12050, "cuCtxRecordEvent", "cuCtxRecordEvent"),
    ),
    "cuCtxResetPersistingL2Cache": (
        Answer(11000, "cuCtxResetPersistingL2Cache", "cuCtxResetPersistingL2Cache"),
    ),
    "cuCtxSetCacheConfig": (
        Answer(3020, "cuCtxSetCacheConfig", "cuCtxSetCacheConfig"),
    ),
    "cuCtxSetCurrent": (
        Answer(4000, "cuCtxSetCurrent", "cuCtxSetCurrent"),
    ),
    "cuCtxSetFlags": (
        Answer(12010, "cuCtxSetFlags", "cuCtxSetFlags"),
    ),
    "cuCtxSetLimit": (
        Answer(3010, "cuCtxSetLimit", "cuCtxSetLimit"),
    ),
    "cuCtxSetSharedMemConfig": (
        Answer(4020, "cuCtxSetSharedMemConfig", "cuCtxSetSharedMemConfig"),
    ),
    "cuCtxSynchronize": (
        Answer(2000, "cuCtxSynchronize", "cuCtxSynchronize"),
        Answer(13000, "cuCtxSynchronize_v2", "cuCtxSynchronize_v2"),
    ),
    "cuCtxWaitEvent": (
        Answer(12050, "cuCtxWaitEvent", "cuCtxWaitEvent"),
    ),
    "cuDestroyExternalMemory": (
        Answer(10000, "cuDestroyExternalMemory", "cuDestroyExternalMemory"),
    ),
    "cuDestroyExternalSemaphore": (
        Answer(10000, "cuDestroyExternalSemaphore", "cuDestroyExternalSemaphore"),
    ),
    "cuDevResourceGenerateDesc": (
        Answer(12040, "cuDevResourceGenerateDesc", "cuDevResourceGenerateDesc"),
    ),
    "cuDevSmResourceSplitByCount": (
        Answer(12040, "cuDevSmResourceSplitByCount", "cuDevSmResourceSplitByCount"),
    ),
    "cuDeviceCanAccessPeer": (
        Answer(4000, "cuDeviceCanAccessPeer", "cuDeviceCanAccessPeer"),
    ),
    "cuDeviceComputeCapability": (
        Answer(2000, "cuDeviceComputeCapability", "cuDeviceComputeCapability"),
    ),
    "cuDeviceGet": (
        Answer(2000, "cuDeviceGet", "cuDeviceGet"),
    ),
    "cuDeviceGetAttribute": (
        Answer(2000, "cuDeviceGetAttribute", "cuDeviceGetAttribute"),
    ),
    "cuDeviceGetByPCIBusId": (
        Answer(4010, "cuDeviceGetByPCIBusId", "cuDeviceGetByPCIBusId"),
    ),
    "cuDeviceGetCount": (
        Answer(2000, "cuDeviceGetCount", "cuDeviceGetCount"),
    ),
    "cuDeviceGetDefaultMemPool": (
        Answer(11020, "cuDeviceGetDefaultMemPool", "cuDeviceGetDefaultMemPool"),
    ),
    "cuDeviceGetDevResource": (
        Answer(12040, "cuDeviceGetDevResource", "cuDeviceGetDevResource"),
    ),
    "cuDeviceGetExecAffinitySupport": (
        Answer(11040, "cuDeviceGetExecAffinitySupport", "cuDeviceGetExecAffinitySupport"),
    ),
    "cuDeviceGetGraphMemAttribute": (
        Answer(11040, "cuDeviceGetGraphMemAttribute", "cuDeviceGetGraphMemAttribute"),
    ),
    "cuDeviceGetHostAtomicCapabilities": (
        Answer(13000, "cuDeviceGetHostAtomicCapabilities", "cuDeviceGetHostAtomicCapabilities"),
    ),
    "cuDeviceGetLuid": (
        Answer(10000, "cuDeviceGetLuid", "cuDeviceGetLuid"),
    ),
    "cuDeviceGetMemPool": (
        Answer(11020, "cuDeviceGetMemPool", "cuDeviceGetMemPool"),
    ),
    "cuDeviceGetName": (
        Answer(2000, "cuDeviceGetName", "cuDeviceGetName"),
    ),
    "cuDeviceGetNvSciSyncAttributes": (
        Answer(10020, "cuDeviceGetNvSciSyncAttributes", "cuDeviceGetNvSciSyncAttributes"),
    ),
    "cuDeviceGetP2PAtomicCapabilities": (
        Answer(13000, "cuDeviceGetP2PAtomicCapabilities", "cuDeviceGetP2PAtomicCapabilities"),
    ),
    "cuDeviceGetP2PAttribute": (
        Answer(8000, "cuDeviceGetP2PAttribute", "cuDeviceGetP2PAttribute"),
    ),
    "cuDeviceGetPCIBusId": (
        Answer(4010, "cuDeviceGetPCIBusId", "cuDeviceGetPCIBusId"),
    ),
    "cuDeviceGetProperties": (
        Answer(2000, "cuDeviceGetProperties", "cuDeviceGetProperties"),
    ),
    "cuDeviceGetTexture1DLinearMaxWidth": (
        Answer(11010, "cuDeviceGetTexture1DLinearMaxWidth", "cuDeviceGetTexture1DLinearMaxWidth"),
    ),
    "cuDeviceGetUuid": (
        Answer(9020, "cuDeviceGetUuid", "cuDeviceGetUuid"),
        Answer(11040, "cuDeviceGetUuid_v2", "cuDeviceGetUuid_v2"),
    ),
    "cuDeviceGraphMemTrim": (
        Answer(11040, "cuDeviceGraphMemTrim", "cuDeviceGraphMemTrim"),
    ),
    "cuDevicePrimaryCtxGetState": (
        Answer(7000, "cuDevicePrimaryCtxGetState", "cuDevicePrimaryCtxGetState"),
    ),
    "cuDevicePrimaryCtxRelease": (
        Answer(7000, "cuDevicePrimaryCtxRelease", "cuDevicePrimaryCtxRelease"),
        Answer(11000, "cuDevicePrimaryCtxRelease_v2", "cuDevicePrimaryCtxRelease_v2"),
    ),
    "cuDevicePrimaryCtxReset": (
        Answer(7000, "cuDevicePrimaryCtxReset", "cuDevicePrimaryCtxReset"),
        Answer(11000, "cuDevicePrimaryCtxReset_v2", "cuDevicePrimaryCtxReset_v2"),
    ),
    "cuDevicePrimaryCtxRetain": (
        Answer(7000, "cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRetain"),
    ),
    "cuDevicePrimaryCtxSetFlags": (
        Answer(7000, "cuDevicePrimaryCtxSetFlags", "cuDevicePrimaryCtxSetFlags"),
        Answer(11000, "cuDevicePrimaryCtxSetFlags_v2", "cuDevicePrimaryCtxSetFlags_v2"),
    ),
    "cuDeviceRegisterAsyncNotification": (
        Answer(12040, "cuDeviceRegisterAsyncNotification", "cuDeviceRegisterAsyncNotification"),
    ),
    "cuDeviceSetGraphMemAttribute": (
        Answer(11040, "cuDeviceSetGraphMemAttribute", "cuDeviceSetGraphMemAttribute"),
    ),
    "cuDeviceSetMemPool": (
        Answer(11020, "cuDeviceSetMemPool", "cuDeviceSetMemPool"),
    ),
    "cuDeviceTotalMem": (
        Answer(2000, "cuDeviceTotalMem", "cuDeviceTotalMem"),
        Answer(3020, "cuDeviceTotalMem_v2", "cuDeviceTotalMem_v2"),
    ),
    "cuDeviceUnregisterAsyncNotification": (
        Answer(12040, "cuDeviceUnregisterAsyncNotification", "cuDeviceUnregisterAsyncNotification"),
    ),
    "cuDriverGetVersion": (
        Answer(2020, "cuDriverGetVersion", "cuDriverGetVersion"),
    ),
    "cuEGLStreamConsumerAcquireFrame": (
        Answer(7000, "cuEGLStreamConsumerAcquireFrame", "cuEGLStreamConsumerAcquireFrame"),
    ),
    "cuEGLStreamConsumerConnect": (
        Answer(7000, "cuEGLStreamConsumerConnect", "cuEGLStreamConsumerConnect"),
    ),
    "cuEGLStreamConsumerConnectWithFlags": (
        Answer(8000, "cuEGLStreamConsumerConnectWithFlags", "cuEGLStreamConsumerConnectWithFlags"),
    ),
    "cuEGLStreamConsumerDisconnect": (
        Answer(7000, "cuEGLStreamConsumerDisconnect", "cuEGLStreamConsumerDisconnect"),
    ),
    "cuEGLStreamConsumerReleaseFrame": (
        Answer(7000, "cuEGLStreamConsumerReleaseFrame", "cuEGLStreamConsumerReleaseFrame"),
    ),
    "cuEGLStreamProducerConnect": (
        Answer(7000, "cuEGLStreamProducerConnect", "cuEGLStreamProducerConnect"),
    ),
    "cuEGLStreamProducerDisconnect": (
        Answer(7000, "cuEGLStreamProducerDisconnect", "cuEGLStreamProducerDisconnect"),
    ),
    "cuEGLStreamProducerPresentFrame": (
        Answer(7000, "cuEGLStreamProducerPresentFrame", "cuEGLStreamProducerPresentFrame"),
    ),
    "cuEGLStreamProducerReturnFrame": (
        Answer(7000, "cuEGLStreamProducerReturnFrame", "cuEGLStreamProducerReturnFrame"),
    ),
    "cuEventCreate": (
        Answer(2000, "cuEventCreate", "cuEventCreate"),
    ),
    "cuEventDestroy": (
        Answer(2000, "cuEventDestroy", "cuEventDestroy"),
        Answer(4000, "cuEventDestroy_v2", "cuEventDestroy_v2"),
    ),
    "cuEventElapsedTime": (
        Answer(2000, "cuEventElapsedTime", "cuEventElapsedTime"),
        Answer(12080, "cuEventElapsedTime_v2", "cuEventElapsedTime_v2"),
    ),
    "cuEventQuery": (
        Answer(2000, "cuEventQuery", "cuEventQuery"),
    ),
    "cuEventRecord": (
        Answer(2000, "cuEventRecord", ""),
        Answer(7000, "cuEventRecord", "cuEventRecord_ptsz"),
    ),
    "cuEventRecordWithFlags": (
        Answer(11010, "cuEventRecordWithFlags", "cuEventRecordWithFlags_ptsz"),
    ),
    "cuEventSynchronize": (
        Answer(2000, "cuEventSynchronize", "cuEventSynchronize"),
    ),
    "cuExternalMemoryGetMappedBuffer": (
        Answer(10000, "cuExternalMemoryGetMappedBuffer", "cuExternalMemoryGetMappedBuffer"),
    ),
    "cuExternalMemoryGetMappedMipmappedArray": (
        Answer(10000, "cuExternalMemoryGetMappedMipmappedArray", "cuExternalMemoryGetMappedMipmappedArray"),
    ),
    "cuFlushGPUDirectRDMAWrites": (
        Answer(11030, "cuFlushGPUDirectRDMAWrites", "cuFlushGPUDirectRDMAWrites"),
    ),
    "cuFuncGetAttribute": (
        Answer(2020, "cuFuncGetAttribute", "cuFuncGetAttribute"),
    ),
    "cuFuncGetModule": (
        Answer(11000, "cuFuncGetModule", "cuFuncGetModule"),
    ),
    "cuFuncGetName": (
        Answer(12030, "cuFuncGetName", "cuFuncGetName"),
    ),
    "cuFuncGetParamInfo": (
        Answer(12040, "cuFuncGetParamInfo", "cuFuncGetParamInfo"),
    ),
    "cuFuncIsLoaded": (
        Answer(12040, "cuFuncIsLoaded", "cuFuncIsLoaded"),
    ),
    "cuFuncLoad": (
        Answer(12040, "cuFuncLoad", "cuFuncLoad"),
    ),
    "cuFuncSetAttribute": (
        Answer(9000, "cuFuncSetAttribute", "cuFuncSetAttribute"),
    ),
    "cuFuncSetBlockShape": (
        Answer(2000, "cuFuncSetBlockShape", "cuFuncSetBlockShape"),
    ),
    "cuFuncSetCacheConfig": (
        Answer(3000, "cuFuncSetCacheConfig", "cuFuncSetCacheConfig"),
    ),
    "cuFuncSetSharedMemConfig": (
        Answer(4020, "cuFuncSetSharedMemConfig", "cuFuncSetSharedMemConfig"),
    ),
    "cuFuncSetSharedSize": (
        Answer(2000, "cuFuncSetSharedSize", "cuFuncSetSharedSize"),
    ),
    "cuGLCtxCreate": (
        Answer(2000, "cuGLCtxCreate", "cuGLCtxCreate"),
        Answer(3020, "cuGLCtxCreate_v2", "cuGLCtxCreate_v2"),
    ),
    "cuGLGetDevices": (
        Answer(4010, "cuGLGetDevices", "cuGLGetDevices"),
        Answer(6050, "cuGLGetDevices_v2", "cuGLGetDevices_v2"),
    ),
    "cuGLInit": (
        Answer(2000, "cuGLInit", "cuGLInit"),
    ),
    "cuGLMapBufferObject": (
        Answer(2000, "cuGLMapBufferObject", ""),
        Answer(3020, "cuGLMapBufferObject_v2", ""),
        Answer(7000, "cuGLMapBufferObject_v2", "cuGLMapBufferObject_v2_ptds"),
    ),
    "cuGLMapBufferObjectAsync": (
        Answer(2030, "cuGLMapBufferObjectAsync", ""),
        Answer(3020, "cuGLMapBufferObjectAsync_v2", ""),
        Answer(7000, "cuGLMapBufferObjectAsync_v2", "cuGLMapBufferObjectAsync_v2_ptsz"),
    ),
    "cuGLRegisterBufferObject": (
        Answer(2000, "cuGLRegisterBufferObject", "cuGLRegisterBufferObject"),
    ),
    "cuGLSetBufferObjectMapFlags": (
        Answer(2030, "cuGLSetBufferObjectMapFlags", "cuGLSetBufferObjectMapFlags"),
    ),
    "cuGLUnmapBufferObject": (
        Answer(2000, "cuGLUnmapBufferObject", "cuGLUnmapBufferObject"),
    ),
    "cuGLUnmapBufferObjectAsync": (
        Answer(2030, "cuGLUnmapBufferObjectAsync", "cuGLUnmapBufferObjectAsync"),
    ),
    "cuGLUnregisterBufferObject": (
        Answer(2000, "cuGLUnregisterBufferObject", "cuGLUnregisterBufferObject"),
    ),
    "cuGetErrorName": (
        Answer(6000, "cuGetErrorName", "cuGetErrorName"),
    ),
    "cuGetErrorString": (
        Answer(6000, "cuGetErrorString", "cuGetErrorString"),
    ),
    "cuGetExportTable": (
        Answer(3000, "cuGetExportTable", "cuGetExportTable"),
    ),
    "cuGetProcAddress": (
        Answer(11030, "cuGetProcAddress", "cuGetProcAddress"),
        Answer(12000, "cuGetProcAddress_v2", "cuGetProcAddress_v2"),
    ),
    "cuGraphAddBatchMemOpNode": (
        Answer(11070, "cuGraphAddBatchMemOpNode", "cuGraphAddBatchMemOpNode"),
    ),
    "cuGraphAddChildGraphNode": (
        Answer(10000, "cuGraphAddChildGraphNode", "cuGraphAddChildGraphNode"),
    ),
    "cuGraphAddDependencies": (
        Answer(10000, "cuGraphAddDependencies", "cuGraphAddDependencies"),
        Answer(12030, "cuGraphAddDependencies_v2", "cuGraphAddDependencies_v2"),
    ),
    "cuGraphAddEmptyNode": (
        Answer(10000, "cuGraphAddEmptyNode", "cuGraphAddEmptyNode"),
    ),
    "cuGraphAddEventRecordNode": (
        Answer(11010, "cuGraphAddEventRecordNode", "cuGraphAddEventRecordNode"),
    ),
    "cuGraphAddEventWaitNode": (
        Answer(11010, "cuGraphAddEventWaitNode", "cuGraphAddEventWaitNode"),
    ),
    "cuGraphAddExternalSemaphoresSignalNode": (
        Answer(11020, "cuGraphAddExternalSemaphoresSignalNode", "cuGraphAddExternalSemaphoresSignalNode"),
    ),
    "cuGraphAddExternalSemaphoresWaitNode": (
        Answer(11020, "cuGraphAddExternalSemaphoresWaitNode", "cuGraphAddExternalSemaphoresWaitNode"),
    ),
    "cuGraphAddHostNode": (
        Answer(10000, "cuGraphAddHostNode", "cuGraphAddHostNode"),
    ),
    "cuGraphAddKernelNode": (
        Answer(10000, "cuGraphAddKernelNode", "cuGraphAddKernelNode"),
        Answer(12000, "cuGraphAddKernelNode_v2", "cuGraphAddKernelNode_v2"),
    ),
    "cuGraphAddMemAllocNode": (
        Answer(11040, "cuGraphAddMemAllocNode", "cuGraphAddMemAllocNode"),
    ),
    "cuGraphAddMemFreeNode": (
        Answer(11040, "cuGraphAddMemFreeNode", "cuGraphAddMemFreeNode"),
    ),
    "cuGraphAddMemcpyNode": (
        Answer(10000, "cuGraphAddMemcpyNode", "cuGraphAddMemcpyNode"),
    ),
    "cuGraphAddMemsetNode": (
        Answer(10000, "cuGraphAddMemsetNode", "cuGraphAddMemsetNode"),
    ),
    "cuGraphAddNode": (
        Answer(12020, "cuGraphAddNode", "cuGraphAddNode"),
        Answer(12030, "cuGraphAddNode_v2", "cuGraphAddNode_v2"),
    ),
    "cuGraphBatchMemOpNodeGetParams": (
        Answer(11070, "cuGraphBatchMemOpNodeGetParams", "cuGraphBatchMemOpNodeGetParams"),
    ),
    "cuGraphBatchMemOpNodeSetParams": (
        Answer(11070, "cuGraphBatchMemOpNodeSetParams", "cuGraphBatchMemOpNodeSetParams"),
    ),
    "cuGraphChildGraphNodeGetGraph": (
        Answer(10000, "cuGraphChildGraphNodeGetGraph", "cuGraphChildGraphNodeGetGraph"),
    ),
    "cuGraphClone": (
        Answer(10000, "cuGraphClone", "cuGraphClone"),
    ),
    "cuGraphConditionalHandleCreate": (
        Answer(12030, "cuGraphConditionalHandleCreate", "cuGraphConditionalHandleCreate"),
    ),
    "cuGraphCreate": (
        Answer(10000, "cuGraphCreate", "cuGraphCreate"),
    ),
    "cuGraphDebugDotPrint": (
        Answer(11030, "cuGraphDebugDotPrint", "cuGraphDebugDotPrint"),
    ),
    "cuGraphDestroy": (
        Answer(10000, "cuGraphDestroy", "cuGraphDestroy"),
    ),
    "cuGraphDestroyNode": (
        Answer(10000, "cuGraphDestroyNode", "cuGraphDestroyNode"),
    ),
    "cuGraphEventRecordNodeGetEvent": (
        Answer(11010, "cuGraphEventRecordNodeGetEvent", "cuGraphEventRecordNodeGetEvent"),
    ),
    "cuGraphEventRecordNodeSetEvent": (
        Answer(11010, "cuGraphEventRecordNodeSetEvent", "cuGraphEventRecordNodeSetEvent"),
    ),
    "cuGraphEventWaitNodeGetEvent": (
        Answer(11010, "cuGraphEventWaitNodeGetEvent", "cuGraphEventWaitNodeGetEvent"),
    ),
    "cuGraphEventWaitNodeSetEvent": (
        Answer(11010, "cuGraphEventWaitNodeSetEvent", "cuGraphEventWaitNodeSetEvent"),
    ),
    "cuGraphExecBatchMemOpNodeSetParams": (
        Answer(11070, "cuGraphExecBatchMemOpNodeSetParams", "cuGraphExecBatchMemOpNodeSetParams"),
    ),
    "cuGraphExecChildGraphNodeSetParams": (
        Answer(11010, "cuGraphExecChildGraphNodeSetParams", "cuGraphExecChildGraphNodeSetParams"),
    ),
    "cuGraphExecDestroy": (
        Answer(10000, "cuGraphExecDestroy", "cuGraphExecDestroy"),
    ),
    "cuGraphExecEventRecordNodeSetEvent": (
        Answer(11010, "cuGraphExecEventRecordNodeSetEvent", "cuGraphExecEventRecordNodeSetEvent"),
    ),
    "cuGraphExecEventWaitNodeSetEvent": (
        Answer(11010, "cuGraphExecEventWaitNodeSetEvent", "cuGraphExecEventWaitNodeSetEvent"),
    ),
    "cuGraphExecExternalSemaphoresSignalNodeSetParams": (
        Answer(11020, "cuGraphExecExternalSemaphoresSignalNodeSetParams", "cuGraphExecExternalSemaphoresSignalNodeSetParams"),
    ),
    "cuGraphExecExternalSemaphoresWaitNodeSetParams": (
        Answer(11020, "cuGraphExecExternalSemaphoresWaitNodeSetParams", "cuGraphExecExternalSemaphoresWaitNodeSetParams"),
    ),
    "cuGraphExecGetFlags": (
        Answer(12000, "cuGraphExecGetFlags", "cuGraphExecGetFlags"),
    ),
    "cuGraphExecHostNodeSetParams": (
        Answer(10020, "cuGraphExecHostNodeSetParams", "cuGraphExecHostNodeSetParams"),
    ),
    "cuGraphExecKernelNodeSetParams": (
        Answer(10010, "cuGraphExecKernelNodeSetParams", "cuGraphExecKernelNodeSetParams"),
        Answer(12000, "cuGraphExecKernelNodeSetParams_v2", "cuGraphExecKernelNodeSetParams_v2"),
    ),
    "cuGraphExecMemcpyNodeSetParams": (
        Answer(10020, "cuGraphExecMemcpyNodeSetParams", "cuGraphExecMemcpyNodeSetParams"),
    ),
    "cuGraphExecMemsetNodeSetParams": (
        Answer(10020, "cuGraphExecMemsetNodeSetParams", "cuGraphExecMemsetNodeSetParams"),
    ),
    "cuGraphExecNodeSetParams": (
        Answer(12020, "cuGraphExecNodeSetParams", "cuGraphExecNodeSetParams"),
    ),
    "cuGraphExecUpdate": (
        Answer(10020, "cuGraphExecUpdate", "cuGraphExecUpdate"),
        Answer(12000, "cuGraphExecUpdate_v2", "cuGraphExecUpdate_v2"),
    ),
    "cuGraphExternalSemaphoresSignalNodeGetParams": (
        Answer(11020, "cuGraphExternalSemaphoresSignalNodeGetParams", "cuGraphExternalSemaphoresSignalNodeGetParams"),
    ),
    "cuGraphExternalSemaphoresSignalNodeSetParams": (
        Answer(11020, "cuGraphExternalSemaphoresSignalNodeSetParams", "cuGraphExternalSemaphoresSignalNodeSetParams"),
    ),
    "cuGraphExternalSemaphoresWaitNodeGetParams": (
        Answer(11020, "cuGraphExternalSemaphoresWaitNodeGetParams", "cuGraphExternalSemaphoresWaitNodeGetParams"),
    ),
    "cuGraphExternalSemaphoresWaitNodeSetParams": (
        Answer(11020, "cuGraphExternalSemaphoresWaitNodeSetParams", "cuGraphExternalSemaphoresWaitNodeSetParams"),
    ),
    "cuGraphGetEdges": (
        Answer(10000, "cuGraphGetEdges", "cuGraphGetEdges"),
        Answer(12030, "cuGraphGetEdges_v2", "cuGraphGetEdges_v2"),
    ),
    "cuGraphGetNodes": (
        Answer(10000, "cuGraphGetNodes", "cuGraphGetNodes"),
    ),
    "cuGraphGetRootNodes": (
        Answer(10000, "cuGraphGetRootNodes", "cuGraphGetRootNodes"),
    ),
    "cuGraphHostNodeGetParams": (
        Answer(10000, "cuGraphHostNodeGetParams", "cuGraphHostNodeGetParams"),
    ),
    "cuGraphHostNodeSetParams": (
        Answer(10000, "cuGraphHostNodeSetParams", "cuGraphHostNodeSetParams"),
    ),
    "cuGraphInstantiate": (
        Answer(10000, "cuGraphInstantiate", "cuGraphInstantiate"),
        Answer(11000, "cuGraphInstantiate_v2", "cuGraphInstantiate_v2"),
    ),
    "cuGraphInstantiateWithFlags": (
        Answer(11040, "cuGraphInstantiateWithFlags", "cuGraphInstantiateWithFlags"),
    ),
    "cuGraphInstantiateWithParams": (
        Answer(12000, "cuGraphInstantiateWithParams", "cuGraphInstantiateWithParams_ptsz"),
    ),
    "cuGraphKernelNodeCopyAttributes": (
        Answer(11000, "cuGraphKernelNodeCopyAttributes", "cuGraphKernelNodeCopyAttributes"),
    ),
    "cuGraphKernelNodeGetAttribute": (
        Answer(11000, "cuGraphKernelNodeGetAttribute", "cuGraphKernelNodeGetAttribute"),
    ),
    "cuGraphKernelNodeGetParams": (
        Answer(10000, "cuGraphKernelNodeGetParams", "cuGraphKernelNodeGetParams"),
        Answer(12000, "cuGraphKernelNodeGetParams_v2", "cuGraphKernelNodeGetParams_v2"),
    ),
    "cuGraphKernelNodeSetAttribute": (
        Answer(11000, "cuGraphKernelNodeSetAttribute", "cuGraphKernelNodeSetAttribute"),
    ),
    "cuGraphKernelNodeSetParams": (
        Answer(10000, "cuGraphKernelNodeSetParams", "cuGraphKernelNodeSetParams"),
        Answer(12000, "cuGraphKernelNodeSetParams_v2", "cuGraphKernelNodeSetParams_v2"),
    ),
    "cuGraphLaunch": (
        Answer(10000, "cuGraphLaunch", "cuGraphLaunch_ptsz"),
    ),
    "cuGraphMemAllocNodeGetParams": (
        Answer(11040, "cuGraphMemAllocNodeGetParams", "cuGraphMemAllocNodeGetParams"),
    ),
    "cuGraphMemFreeNodeGetParams": (
        Answer(11040, "cuGraphMemFreeNodeGetParams", "cuGraphMemFreeNodeGetParams"),
    ),
    "cuGraphMemcpyNodeGetParams": (
        Answer(10000, "cuGraphMemcpyNodeGetParams", "cuGraphMemcpyNodeGetParams"),
    ),
    "cuGraphMemcpyNodeSetParams": (
        Answer(10000, "cuGraphMemcpyNodeSetParams", "cuGraphMemcpyNodeSetParams"),
    ),
    "cuGraphMemsetNodeGetParams": (
        Answer(10000, "cuGraphMemsetNodeGetParams", "cuGraphMemsetNodeGetParams"),
    ),
    "cuGraphMemsetNodeSetParams": (
        Answer(10000, "cuGraphMemsetNodeSetParams", "cuGraphMemsetNodeSetParams"),
    ),
    "cuGraphNodeFindInClone": (
        Answer(10000, "cuGraphNodeFindInClone", "cuGraphNodeFindInClone"),
    ),
    "cuGraphNodeGetDependencies": (
        Answer(10000, "cuGraphNodeGetDependencies", "cuGraphNodeGetDependencies"),
        Answer(12030, "cuGraphNodeGetDependencies_v2", "cuGraphNodeGetDependencies_v2"),
    ),
    "cuGraphNodeGetDependentNodes": (
        Answer(10000, "cuGraphNodeGetDependentNodes", "cuGraphNodeGetDependentNodes"),
        Answer(12030, "cuGraphNodeGetDependentNodes_v2", "cuGraphNodeGetDependentNodes_v2"),
    ),
    "cuGraphNodeGetEnabled": (
        Answer(11060, "cuGraphNodeGetEnabled", "cuGraphNodeGetEnabled"),
    ),
    "cuGraphNodeGetType": (
        Answer(10000, "cuGraphNodeGetType", "cuGraphNodeGetType"),
    ),
    "cuGraphNodeSetEnabled": (
        Answer(11060, "cuGraphNodeSetEnabled", "cuGraphNodeSetEnabled"),
    ),
    "cuGraphNodeSetParams": (
        Answer(12020, "cuGraphNodeSetParams", "cuGraphNodeSetParams"),
    ),
    "cuGraphReleaseUserObject": (
        Answer(11030, "cuGraphReleaseUserObject", "cuGraphReleaseUserObject"),
    ),
    "cuGraphRemoveDependencies": (
        Answer(10000, "cuGraphRemoveDependencies", "cuGraphRemoveDependencies"),
        Answer(12030, "cuGraphRemoveDependencies_v2", "cuGraphRemoveDependencies_v2"),
    ),
    "cuGraphRetainUserObject": (
        Answer(11030, "cuGraphRetainUserObject", "cuGraphRetainUserObject"),
    ),
    "cuGraphUpload": (
        Answer(11010, "cuGraphUpload", "cuGraphUpload_ptsz"),
    ),
    "cuGraphicsEGLRegisterImage": (
        Answer(7000, "cuGraphicsEGLRegisterImage", "cuGraphicsEGLRegisterImage"),
    ),
    "cuGraphicsGLRegisterBuffer": (
        Answer(3000, "cuGraphicsGLRegisterBuffer", "cuGraphicsGLRegisterBuffer"),
    ),
    "cuGraphicsGLRegisterImage": (
        Answer(3000, "cuGraphicsGLRegisterImage", "cuGraphicsGLRegisterImage"),
    ),
    "cuGraphicsMapResources": (
        Answer(3000, "cuGraphicsMapResources", ""),
        Answer(7000, "cuGraphicsMapResources", "cuGraphicsMapResources_ptsz"),
    ),
    "cuGraphicsResourceGetMappedEglFrame": (
        Answer(7000, "cuGraphicsResourceGetMappedEglFrame", "cuGraphicsResourceGetMappedEglFrame"),
    ),
    "cuGraphicsResourceGetMappedMipmappedArray": (
        Answer(5000, "cuGraphicsResourceGetMappedMipmappedArray", "cuGraphicsResourceGetMappedMipmappedArray"),
    ),
    "cuGraphicsResourceGetMappedPointer": (
        Answer(3000, "cuGraphicsResourceGetMappedPointer", "cuGraphicsResourceGetMappedPointer"),
        Answer(3020, "cuGraphicsResourceGetMappedPointer_v2", "cuGraphicsResourceGetMappedPointer_v2"),
    ),
    "cuGraphicsResourceSetMapFlags": (
        Answer(3000, "cuGraphicsResourceSetMapFlags", "cuGraphicsResourceSetMapFlags"),
        Answer(6050, "cuGraphicsResourceSetMapFlags_v2", "cuGraphicsResourceSetMapFlags_v2"),
    ),
    "cuGraphicsSubResourceGetMappedArray": (
        Answer(3000, "cuGraphicsSubResourceGetMappedArray", "cuGraphicsSubResourceGetMappedArray"),
    ),
    "cuGraphicsUnmapResources": (
        Answer(3000, "cuGraphicsUnmapResources", ""),
        Answer(7000, "cuGraphicsUnmapResources", "cuGraphicsUnmapResources_ptsz"),
    ),
    "cuGraphicsUnregisterResource": (
        Answer(3000, "cuGraphicsUnregisterResource", "cuGraphicsUnregisterResource"),
    ),
    "cuGraphicsVDPAURegisterOutputSurface": (
        Answer(3010, "cuGraphicsVDPAURegisterOutputSurface", "cuGraphicsVDPAURegisterOutputSurface"),
    ),
    "cuGraphicsVDPAURegisterVideoSurface": (
        Answer(3010, "cuGraphicsVDPAURegisterVideoSurface", "cuGraphicsVDPAURegisterVideoSurface"),
    ),
    "cuGreenCtxCreate": (
        Answer(12040, "cuGreenCtxCreate", "cuGreenCtxCreate"),
    ),
    "cuGreenCtxDestroy": (
        Answer(12040, "cuGreenCtxDestroy", "cuGreenCtxDestroy"),
    ),
    "cuGreenCtxGetDevResource": (
        Answer(12040, "cuGreenCtxGetDevResource", "cuGreenCtxGetDevResource"),
    ),
    "cuGreenCtxGetId": (
        Answer(12090, "cuGreenCtxGetId", "cuGreenCtxGetId"),
    ),
    "cuGreenCtxRecordEvent": (
        Answer(12040, "cuGreenCtxRecordEvent", "cuGreenCtxRecordEvent"),
    ),
    "cuGreenCtxStreamCreate": (
        Answer(12050, "cuGreenCtxStreamCreate", "cuGreenCtxStreamCreate"),
    ),
    "cuGreenCtxWaitEvent": (
        Answer(12040, "cuGreenCtxWaitEvent", "cuGreenCtxWaitEvent"),
    ),
    "cuImportExternalMemory": (
        Answer(10000, "cuImportExternalMemory", "cuImportExternalMemory"),
    ),
    "cuImportExternalSemaphore": (
        Answer(10000, "cuImportExternalSemaphore", "cuImportExternalSemaphore"),
    ),
    "cuInit": (
        Answer(2000, "cuInit", "cuInit"),
    ),
    "cuIpcCloseMemHandle": (
        Answer(4010, "cuIpcCloseMemHandle", "cuIpcCloseMemHandle"),
    ),
    "cuIpcGetEventHandle": (
        Answer(4010, "cuIpcGetEventHandle", "cuIpcGetEventHandle"),
    ),
    "cuIpcGetMemHandle": (
        Answer(4010, "cuIpcGetMemHandle", "cuIpcGetMemHandle"),
    ),
    "cuIpcOpenEventHandle": (
        Answer(4010, "cuIpcOpenEventHandle", "cuIpcOpenEventHandle"),
    ),
    "cuIpcOpenMemHandle": (
        Answer(4010, "cuIpcOpenMemHandle", "cuIpcOpenMemHandle"),
        Answer(11000, "cuIpcOpenMemHandle_v2", "cuIpcOpenMemHandle_v2"),
    ),
    "cuKernelGetAttribute": (
        Answer(12000, "cuKernelGetAttribute", "cuKernelGetAttribute"),
    ),
    "cuKernelGetFunction": (
        Answer(12000, "cuKernelGetFunction", "cuKernelGetFunction"),
    ),
    "cuKernelGetLibrary": (
        Answer(12050, "cuKernelGetLibrary", "cuKernelGetLibrary"),
    ),
    "cuKernelGetName": (
        Answer(12030, "cuKernelGetName", "cuKernelGetName"),
    ),
    "cuKernelGetParamInfo": (
        Answer(12040, "cuKernelGetParamInfo", "cuKernelGetParamInfo"),
    ),
    "cuKernelSetAttribute": (
        Answer(12000, "cuKernelSetAttribute", "cuKernelSetAttribute"),
    ),
    "cuKernelSetCacheConfig": (
        Answer(12000, "cuKernelSetCacheConfig", "cuKernelSetCacheConfig"),
    ),
    "cuLaunch": (
        Answer(2000, "cuLaunch", "cuLaunch"),
    ),
    "cuLaunchCooperativeKernel": (
        Answer(9000, "cuLaunchCooperativeKernel", "cuLaunchCooperativeKernel_ptsz"),
    ),
    "cuLaunchCooperativeKernelMultiDevice": (
        Answer(9000, "cuLaunchCooperativeKernelMultiDevice", "cuLaunchCooperativeKernelMultiDevice"),
    ),
    "cuLaunchGrid": (
        Answer(2000, "cuLaunchGrid", "cuLaunchGrid"),
    ),
    "cuLaunchGridAsync": (
        Answer(2000, "cuLaunchGridAsync", "cuLaunchGridAsync"),
    ),
    "cuLaunchHostFunc": (
        Answer(10000, "cuLaunchHostFunc", "cuLaunchHostFunc_ptsz"),
    ),
    "cuLaunchKernel": (
        Answer(4000, "cuLaunchKernel", ""),
        Answer(7000, "cuLaunchKernel", "cuLaunchKernel_ptsz"),
    ),
    "cuLaunchKernelEx": (
        Answer(11060, "cuLaunchKernelEx", "cuLaunchKernelEx_ptsz"),
    ),
    "cuLibraryEnumerateKernels": (
        Answer(12040, "cuLibraryEnumerateKernels", "cuLibraryEnumerateKernels"),
    ),
    "cuLibraryGetGlobal": (
        Answer(12000, "cuLibraryGetGlobal", "cuLibraryGetGlobal"),
    ),
    "cuLibraryGetKernel": (
        Answer(12000, "cuLibraryGetKernel", "cuLibraryGetKernel"),
    ),
    "cuLibraryGetKernelCount": (
        Answer(12040, "cuLibraryGetKernelCount", "cuLibraryGetKernelCount"),
    ),
    "cuLibraryGetManaged": (
        Answer(12000, "cuLibraryGetManaged", "cuLibraryGetManaged"),
    ),
    "cuLibraryGetModule": (
        Answer(12000, "cuLibraryGetModule", "cuLibraryGetModule"),
    ),
    "cuLibraryGetUnifiedFunction": (
        Answer(12000, "cuLibraryGetUnifiedFunction", "cuLibraryGetUnifiedFunction"),
    ),
    "cuLibraryLoadData": (
        Answer(12000, "cuLibraryLoadData", "cuLibraryLoadData"),
    ),
    "cuLibraryLoadFromFile": (
        Answer(12000, "cuLibraryLoadFromFile", "cuLibraryLoadFromFile"),
    ),
    "cuLibraryUnload": (
        Answer(12000, "cuLibraryUnload", "cuLibraryUnload"),
    ),
    "cuLinkAddData": (
        Answer(5050, "cuLinkAddData", "cuLinkAddData"),
        Answer(6050, "cuLinkAddData_v2", "cuLinkAddData_v2"),
    ),
    "cuLinkAddFile": (
        Answer(5050, "cuLinkAddFile", "cuLinkAddFile"),
        Answer(6050, "cuLinkAddFile_v2", "cuLinkAddFile_v2"),
    ),
    "cuLinkComplete": (
        Answer(5050, "cuLinkComplete", "cuLinkComplete"),
    ),
    "cuLinkCreate": (
        Answer(5050, "cuLinkCreate", "cuLinkCreate"),
        Answer(6050, "cuLinkCreate_v2", "cuLinkCreate_v2"),
    ),
    "cuLinkDestroy": (
        Answer(5050, "cuLinkDestroy", "cuLinkDestroy"),
    ),
    "cuLogsCurrent": (
        Answer(12090, "cuLogsCurrent", "cuLogsCurrent"),
    ),
    "cuLogsDumpToFile": (
        Answer(12090, "cuLogsDumpToFile", "cuLogsDumpToFile"),
    ),
    "cuLogsDumpToMemory": (
        Answer(12090, "cuLogsDumpToMemory", "cuLogsDumpToMemory"),
    ),
    "cuLogsRegisterCallback": (
        Answer(12090, "cuLogsRegisterCallback", "cuLogsRegisterCallback"),
    ),
    "cuLogsUnregisterCallback": (
        Answer(12090, "cuLogsUnregisterCallback", "cuLogsUnregisterCallback"),
    ),
    "cuMemAddressFree": (
        Answer(10020, "cuMemAddressFree", "cuMemAddressFree"),
    ),
    "cuMemAddressReserve": (
        Answer(10020, "cuMemAddressReserve", "cuMemAddressReserve"),
    ),
    "cuMemAdvise": (
        Answer(8000, "cuMemAdvise", "cuMemAdvise"),
        Answer(12020, "cuMemAdvise_v2", "cuMemAdvise_v2"),
    ),
    "cuMemAlloc": (
        Answer(2000, "cuMemAlloc", "cuMemAlloc"),
        Answer(3020, "cuMemAlloc_v2", "cuMemAlloc_v2"),
    ),
    "cuMemAllocAsync": (
        Answer(11020, "cuMemAllocAsync", "cuMemAllocAsync_ptsz"),
    ),
    "cuMemAllocFromPoolAsync": (
        Answer(11020, "cuMemAllocFromPoolAsync", "cuMemAllocFromPoolAsync_ptsz"),
    ),
    "cuMemAllocHost": (
        Answer(2000, "cuMemAllocHost", "cuMemAllocHost"),
        Answer(3020, "cuMemAllocHost_v2", "cuMemAllocHost_v2"),
    ),
    "cuMemAllocManaged": (
        Answer(6000, "cuMemAllocManaged", "cuMemAllocManaged"),
    ),
    "cuMemAllocPitch": (
        Answer(2000, "cuMemAllocPitch", "cuMemAllocPitch"),
        Answer(3020, "cuMemAllocPitch_v2", "cuMemAllocPitch_v2"),
    ),
    "cuMemBatchDecompressAsync": (
        Answer(12060, "cuMemBatchDecompressAsync", "cuMemBatchDecompressAsync_ptsz"),
    ),
    "cuMemCreate": (
        Answer(10020, "cuMemCreate", "cuMemCreate"),
    ),
    "cuMemDiscardAndPrefetchBatchAsync": (
        Answer(13000, "cuMemDiscardAndPrefetchBatchAsync", "cuMemDiscardAndPrefetchBatchAsync_ptsz"),
    ),
    "cuMemDiscardBatchAsync": (
        Answer(13000, "cuMemDiscardBatchAsync", "cuMemDiscardBatchAsync_ptsz"),
    ),
    "cuMemExportToShareableHandle": (
        Answer(10020, "cuMemExportToShareableHandle", "cuMemExportToShareableHandle"),
    ),
    "cuMemFree": (
        Answer(2000, "cuMemFree", "cuMemFree"),
        Answer(3020, "cuMemFree_v2", "cuMemFree_v2"),
    ),
    "cuMemFreeAsync": (
        Answer(11020, "cuMemFreeAsync", "cuMemFreeAsync_ptsz"),
    ),
    "cuMemFreeHost": (
        Answer(2000, "cuMemFreeHost", "cuMemFreeHost"),
    ),
    "cuMemGetAccess": (
        Answer(10020, "cuMemGetAccess", "cuMemGetAccess"),
    ),
    "cuMemGetAddressRange": (
        Answer(2000, "cuMemGetAddressRange", "cuMemGetAddressRange"),
        Answer(3020, "cuMemGetAddressRange_v2", "cuMemGetAddressRange_v2"),
    ),
    "cuMemGetAllocationGranularity": (
        Answer(10020, "cuMemGetAllocationGranularity", "cuMemGetAllocationGranularity"),
    ),
    "cuMemGetAllocationPropertiesFromHandle": (
        Answer(10020, "cuMemGetAllocationPropertiesFromHandle", "cuMemGetAllocationPropertiesFromHandle"),
    ),
    "cuMemGetDefaultMemPool": (
        Answer(13000, "cuMemGetDefaultMemPool", "cuMemGetDefaultMemPool"),
    ),
    "cuMemGetHandleForAddressRange": (
        Answer(11070, "cuMemGetHandleForAddressRange", "cuMemGetHandleForAddressRange"),
    ),
    "cuMemGetInfo": (
        Answer(2000, "cuMemGetInfo", "cuMemGetInfo"),
        Answer(3020, "cuMemGetInfo_v2", "cuMemGetInfo_v2"),
    ),
    "cuMemGetMemPool": (
        Answer(13000, "cuMemGetMemPool", "cuMemGetMemPool"),
    ),
    "cuMemHostAlloc": (
        Answer(2020, "cuMemHostAlloc", "cuMemHostAlloc"),
    ),
    "cuMemHostGetDevicePointer": (
        Answer(2020, "cuMemHostGetDevicePointer", "cuMemHostGetDevicePointer"),
        Answer(3020, "cuMemHostGetDevicePointer_v2", "cuMemHostGetDevicePointer_v2"),
    ),
    "cuMemHostGetFlags": (
        Answer(2030, "cuMemHostGetFlags", "cuMemHostGetFlags"),
    ),
    "cuMemHostRegister": (
        Answer(4000, "cuMemHostRegister", "cuMemHostRegister"),
        Answer(6050, "cuMemHostRegister_v2", "cuMemHostRegister_v2"),
    ),
    "cuMemHostUnregister": (
        Answer(4000, "cuMemHostUnregister", "cuMemHostUnregister"),
    ),
    "cuMemImportFromShareableHandle": (
        Answer(10020, "cuMemImportFromShareableHandle", "cuMemImportFromShareableHandle"),
    ),
    "cuMemMap": (
        Answer(10020, "cuMemMap", "cuMemMap"),
    ),
    "cuMemMapArrayAsync": (
        Answer(11010, "cuMemMapArrayAsync", "cuMemMapArrayAsync_ptsz"),
    ),
    "cuMemPoolCreate": (
        Answer(11020, "cuMemPoolCreate", "cuMemPoolCreate"),
    ),
    "cuMemPoolDestroy": (
        Answer(11020, "cuMemPoolDestroy", "cuMemPoolDestroy"),
    ),
    "cuMemPoolExportPointer": (
        Answer(11020, "cuMemPoolExportPointer", "cuMemPoolExportPointer"),
    ),
    "cuMemPoolExportToShareableHandle": (
        Answer(11020, "cuMemPoolExportToShareableHandle", "cuMemPoolExportToShareableHandle"),
    ),
    "cuMemPoolGetAccess": (
        Answer(11020, "cuMemPoolGetAccess", "cuMemPoolGetAccess"),
    ),
    "cuMemPoolGetAttribute": (
        Answer(11020, "cuMemPoolGetAttribute", "cuMemPoolGetAttribute"),
    ),
    "cuMemPoolImportFromShareableHandle": (
        Answer(11020, "cuMemPoolImportFromShareableHandle", "cuMemPoolImportFromShareableHandle"),
    ),
    "cuMemPoolImportPointer": (
        Answer(11020, "cuMemPoolImportPointer", "cuMemPoolImportPointer"),
    ),
    "cuMemPoolSetAccess": (
        Answer(11020, "cuMemPoolSetAccess", "cuMemPoolSetAccess"),
    ),
    "cuMemPoolSetAttribute": (
        Answer(11020, "cuMemPoolSetAttribute", "cuMemPoolSetAttribute"),
    ),
    "cuMemPoolTrimTo": (
        Answer(11020, "cuMemPoolTrimTo", "cuMemPoolTrimTo"),
    ),
    "cuMemPrefetchAsync": (
        Answer(8000, "cuMemPrefetchAsync", "cuMemPrefetchAsync_ptsz"),
        Answer(12020, "cuMemPrefetchAsync_v2", "cuMemPrefetchAsync_v2_ptsz"),
    ),
    "cuMemPrefetchBatchAsync": (
        Answer(13000, "cuMemPrefetchBatchAsync", "cuMemPrefetchBatchAsync_ptsz"),
    ),
    "cuMemRangeGetAttribute": (
        Answer(8000, "cuMemRangeGetAttribute", "cuMemRangeGetAttribute"),
    ),
    "cuMemRangeGetAttributes": (
        Answer(8000, "cuMemRangeGetAttributes", "cuMemRangeGetAttributes"),
    ),
    "cuMemRelease": (
        Answer(10020, "cuMemRelease", "cuMemRelease"),
    ),
    "cuMemRetainAllocationHandle": (
        Answer(11000, "cuMemRetainAllocationHandle", "cuMemRetainAllocationHandle"),
    ),
    "cuMemSetAccess": (
        Answer(10020, "cuMemSetAccess", "cuMemSetAccess"),
    ),
    "cuMemSetMemPool": (
        Answer(13000, "cuMemSetMemPool", "cuMemSetMemPool"),
    ),
    "cuMemUnmap": (
        Answer(10020, "cuMemUnmap", "cuMemUnmap"),
    ),
    "cuMemcpy": (
        Answer(4000, "cuMemcpy", ""),
        Answer(7000, "cuMemcpy", "cuMemcpy_ptds"),
    ),
    "cuMemcpy2D": (
        Answer(2000, "cuMemcpy2D", ""),
        Answer(3020, "cuMemcpy2D_v2", ""),
        Answer(7000, "cuMemcpy2D_v2", "cuMemcpy2D_v2_ptds"),
    ),
    "cuMemcpy2DAsync": (
        Answer(2000, "cuMemcpy2DAsync", ""),
        Answer(3020, "cuMemcpy2DAsync_v2", ""),
        Answer(7000, "cuMemcpy2DAsync_v2", "cuMemcpy2DAsync_v2_ptsz"),
    ),
    "cuMemcpy2DUnaligned": (
        Answer(2000, "cuMemcpy2DUnaligned", ""),
        Answer(3020, "cuMemcpy2DUnaligned_v2", ""),
        Answer(7000, "cuMemcpy2DUnaligned_v2", "cuMemcpy2DUnaligned_v2_ptds"),
    ),
    "cuMemcpy3D": (
        Answer(2000, "cuMemcpy3D", ""),
        Answer(3020, "cuMemcpy3D_v2", ""),
        Answer(7000, "cuMemcpy3D_v2", "cuMemcpy3D_v2_ptds"),
    ),
    "cuMemcpy3DAsync": (
        Answer(2000, "cuMemcpy3DAsync", ""),
        Answer(3020, "cuMemcpy3DAsync_v2", ""),
        Answer(7000, "cuMemcpy3DAsync_v2", "cuMemcpy3DAsync_v2_ptsz"),
    ),
    "cuMemcpy3DBatchAsync": (
        Answer(12080, "cuMemcpy3DBatchAsync", "cuMemcpy3DBatchAsync_ptsz"),
        Answer(13000, "cuMemcpy3DBatchAsync_v2", "cuMemcpy3DBatchAsync_v2_ptsz"),
    ),
    "cuMemcpy3DPeer": (
        Answer(4000, "cuMemcpy3DPeer", ""),
        Answer(7000, "cuMemcpy3DPeer", "cuMemcpy3DPeer_ptds"),
    ),
    "cuMemcpy3DPeerAsync": (
        Answer(4000, "cuMemcpy3DPeerAsync", ""),
        Answer(7000, "cuMemcpy3DPeerAsync", "cuMemcpy3DPeerAsync_ptsz"),
    ),
    "cuMemcpyAsync": (
        Answer(4000, "cuMemcpyAsync", ""),
        Answer(7000, "cuMemcpyAsync", "cuMemcpyAsync_ptsz"),
    ),
    "cuMemcpyAtoA": (
        Answer(2000, "cuMemcpyAtoA", ""),
        Answer(3020, "cuMemcpyAtoA_v2", ""),
        Answer(7000, "cuMemcpyAtoA_v2", "cuMemcpyAtoA_v2_ptds"),
    ),
    "cuMemcpyAtoD": (
        Answer(2000, "cuMemcpyAtoD", ""),
        Answer(3020, "cuMemcpyAtoD_v2", ""),
        Answer(7000, "cuMemcpyAtoD_v2", "cuMemcpyAtoD_v2_ptds"),
    ),
    "cuMemcpyAtoH": (
        Answer(2000, "cuMemcpyAtoH", ""),
        Answer(3020, "cuMemcpyAtoH_v2", ""),
        Answer(7000, "cuMemcpyAtoH_v2", "cuMemcpyAtoH_v2_ptds"),
    ),
    "cuMemcpyAtoHAsync": (
        Answer(2000, "cuMemcpyAtoHAsync", ""),
        Answer(3020, "cuMemcpyAtoHAsync_v2", ""),
        Answer(7000, "cuMemcpyAtoHAsync_v2", "cuMemcpyAtoHAsync_v2_ptsz"),
    ),
    "cuMemcpyBatchAsync": (
        Answer(12080, "cuMemcpyBatchAsync", "cuMemcpyBatchAsync_ptsz"),
        Answer(13000, "cuMemcpyBatchAsync_v2", "cuMemcpyBatchAsync_v2_ptsz"),
    ),
    "cuMemcpyDtoA": (
        Answer(2000, "cuMemcpyDtoA", ""),
        Answer(3020, "cuMemcpyDtoA_v2", ""),
        Answer(7000, "cuMemcpyDtoA_v2", "cuMemcpyDtoA_v2_ptds"),
    ),
    "cuMemcpyDtoD": (
        Answer(2000, "cuMemcpyDtoD", ""),
        Answer(3020, "cuMemcpyDtoD_v2", ""),
        Answer(7000, "cuMemcpyDtoD_v2", "cuMemcpyDtoD_v2_ptds"),
    ),
    "cuMemcpyDtoDAsync": (
        Answer(3000, "cuMemcpyDtoDAsync", ""),
        Answer(3020, "cuMemcpyDtoDAsync_v2", ""),
        Answer(7000, "cuMemcpyDtoDAsync_v2", "cuMemcpyDtoDAsync_v2_ptsz"),
    ),
    "cuMemcpyDtoH": (
        Answer(2000, "cuMemcpyDtoH", ""),
        Answer(3020, "cuMemcpyDtoH_v2", ""),
        Answer(7000, "cuMemcpyDtoH_v2", "cuMemcpyDtoH_v2_ptds"),
    ),
    "cuMemcpyDtoHAsync": (
        Answer(2000, "cuMemcpyDtoHAsync", ""),
        Answer(3020, "cuMemcpyDtoHAsync_v2", ""),
        Answer(7000, "cuMemcpyDtoHAsync_v2", "cuMemcpyDtoHAsync_v2_ptsz"),
    ),
    "cuMemcpyHtoA": (
        Answer(2000, "cuMemcpyHtoA", ""),
        Answer(3020, "cuMemcpyHtoA_v2", ""),
        Answer(7000, "cuMemcpyHtoA_v2", "cuMemcpyHtoA_v2_ptds"),
    ),
    "cuMemcpyHtoAAsync": (
        Answer(2000, "cuMemcpyHtoAAsync", ""),
        Answer(3020, "cuMemcpyHtoAAsync_v2", ""),
        Answer(7000, "cuMemcpyHtoAAsync_v2", "cuMemcpyHtoAAsync_v2_ptsz"),
    ),
    "cuMemcpyHtoD": (
        Answer(2000, "cuMemcpyHtoD", ""),
        Answer(3020, "cuMemcpyHtoD_v2", ""),
        Answer(7000, "cuMemcpyHtoD_v2", "cuMemcpyHtoD_v2_ptds"),
    ),
    "cuMemcpyHtoDAsync": (
        Answer(2000, "cuMemcpyHtoDAsync", ""),
        Answer(3020, "cuMemcpyHtoDAsync_v2", ""),
        Answer(7000, "cuMemcpyHtoDAsync_v2", "cuMemcpyHtoDAsync_v2_ptsz"),
    ),
    "cuMemcpyPeer": (
        Answer(4000, "cuMemcpyPeer", ""),
        Answer(7000, "cuMemcpyPeer", "cuMemcpyPeer_ptds"),
    ),
    "cuMemcpyPeerAsync": (
        Answer(4000, "cuMemcpyPeerAsync", ""),
        Answer(7000, "cuMemcpyPeerAsync", "cuMemcpyPeerAsync_ptsz"),
    ),
    "cuMemsetD16": (
        Answer(2000, "cuMemsetD16", ""),
        Answer(3020, "cuMemsetD16_v2", ""),
        Answer(7000, "cuMemsetD16_v2", "cuMemsetD16_v2_ptds"),
    ),
    "cuMemsetD16Async": (
        Answer(3020, "cuMemsetD16Async", ""),
        Answer(7000, "cuMemsetD16Async", "cuMemsetD16Async_ptsz"),
    ),
    "cuMemsetD2D16": (
        Answer(2000, "cuMemsetD2D16", ""),
        Answer(3020, "cuMemsetD2D16_v2", ""),
        Answer(7000, "cuMemsetD2D16_v2", "cuMemsetD2D16_v2_ptds"),
    ),
    "cuMemsetD2D16Async": (
        Answer(3020, "cuMemsetD2D16Async", ""),
        Answer(7000, "cuMemsetD2D16Async", "cuMemsetD2D16Async_ptsz"),
    ),
    "cuMemsetD2D32": (
        Answer(2000, "cuMemsetD2D32", ""),
        Answer(3020, "cuMemsetD2D32_v2", ""),
        Answer(7000, "cuMemsetD2D32_v2", "cuMemsetD2D32_v2_ptds"),
    ),
    "cuMemsetD2D32Async": (
        Answer(3020, "cuMemsetD2D32Async", ""),
        Answer(7000, "cuMemsetD2D32Async", "cuMemsetD2D32Async_ptsz"),
    ),
    "cuMemsetD2D8": (
        Answer(2000, "cuMemsetD2D8", ""),
        Answer(3020, "cuMemsetD2D8_v2", ""),
        Answer(7000, "cuMemsetD2D8_v2", "cuMemsetD2D8_v2_ptds"),
    ),
    "cuMemsetD2D8Async": (
        Answer(3020, "cuMemsetD2D8Async", ""),
        Answer(7000, "cuMemsetD2D8Async", "cuMemsetD2D8Async_ptsz"),
    ),
    "cuMemsetD32": (
        Answer(2000, "cuMemsetD32", ""),
        Answer(3020, "cuMemsetD32_v2", ""),
        Answer(7000, "cuMemsetD32_v2", "cuMemsetD32_v2_ptds"),
    ),
    "cuMemsetD32Async": (
        Answer(3020, "cuMemsetD32Async", ""),
        Answer(7000, "cuMemsetD32Async", "cuMemsetD32Async_ptsz"),
    ),
    "cuMemsetD8": (
        Answer(2000, "cuMemsetD8", ""),
        Answer(3020, "cuMemsetD8_v2", ""),
        Answer(7000, "cuMemsetD8_v2", "cuMemsetD8_v2_ptds"),
    ),
    "cuMemsetD8Async": (
        Answer(3020, "cuMemsetD8Async", ""),
        Answer(7000, "cuMemsetD8Async", "cuMemsetD8Async_ptsz"),
    ),
    "cuMipmappedArrayCreate": (
        Answer(5000, "cuMipmappedArrayCreate", "cuMipmappedArrayCreate"),
    ),
    "cuMipmappedArrayDestroy": (
        Answer(5000, "cuMipmappedArrayDestroy", "cuMipmappedArrayDestroy"),
    ),
    "cuMipmappedArrayGetLevel": (
        Answer(5000, "cuMipmappedArrayGetLevel", "cuMipmappedArrayGetLevel"),
    ),
    "cuMipmappedArrayGetMemoryRequirements": (
        Answer(11060, "cuMipmappedArrayGetMemoryRequirements", "cuMipmappedArrayGetMemoryRequirements"),
    ),
    "cuMipmappedArrayGetSparseProperties": (
        Answer(11010, "cuMipmappedArrayGetSparseProperties", "cuMipmappedArrayGetSparseProperties"),
    ),
    "cuModuleEnumerateFunctions": (
        Answer(12040, "cuModuleEnumerateFunctions", "cuModuleEnumerateFunctions"),
    ),
    "cuModuleGetFunction": (
        Answer(2000, "cuModuleGetFunction", "cuModuleGetFunction"),
    ),
    "cuModuleGetFunctionCount": (
        Answer(12040, "cuModuleGetFunctionCount", "cuModuleGetFunctionCount"),
    ),
    "cuModuleGetGlobal": (
        Answer(2000, "cuModuleGetGlobal", "cuModuleGetGlobal"),
        Answer(3020, "cuModuleGetGlobal_v2", "cuModuleGetGlobal_v2"),
    ),
    "cuModuleGetLoadingMode": (
        Answer(11070, "cuModuleGetLoadingMode", "cuModuleGetLoadingMode"),
    ),
    "cuModuleGetSurfRef": (
        Answer(3000, "cuModuleGetSurfRef", "cuModuleGetSurfRef"),
    ),
    "cuModuleGetTexRef": (
        Answer(2000, "cuModuleGetTexRef", "cuModuleGetTexRef"),
    ),
    "cuModuleLoad": (
        Answer(2000, "cuModuleLoad", "cuModuleLoad"),
    ),
    "cuModuleLoadData": (
        Answer(2000, "cuModuleLoadData", "cuModuleLoadData"),
    ),
    "cuModuleLoadDataEx": (
        Answer(2010, "cuModuleLoadDataEx", "cuModuleLoadDataEx"),
    ),
    "cuModuleLoadFatBinary": (
        Answer(2000, "cuModuleLoadFatBinary", "cuModuleLoadFatBinary"),
    ),
    "cuModuleUnload": (
        Answer(2000, "cuModuleUnload", "cuModuleUnload"),
    ),
    "cuMulticastAddDevice": (
        Answer(12010, "cuMulticastAddDevice", "cuMulticastAddDevice"),
    ),
    "cuMulticastBindAddr": (
        Answer(12010, "cuMulticastBindAddr", "cuMulticastBindAddr"),
    ),
    "cuMulticastBindMem": (
        Answer(12010, "cuMulticastBindMem", "cuMulticastBindMem"),
    ),
    "cuMulticastCreate": (
        Answer(12010, "cuMulticastCreate", "cuMulticastCreate"),
    ),
    "cuMulticastGetGranularity": (
        Answer(12010, "cuMulticastGetGranularity", "cuMulticastGetGranularity"),
    ),
    "cuMulticastUnbind": (
        Answer(12010, "cuMulticastUnbind", "cuMulticastUnbind"),
    ),
    "cuOccupancyAvailableDynamicSMemPerBlock": (
        Answer(10020, "cuOccupancyAvailableDynamicSMemPerBlock", "cuOccupancyAvailableDynamicSMemPerBlock"),
    ),
    "cuOccupancyMaxActiveBlocksPerMultiprocessor": (
        Answer(6050, "cuOccupancyMaxActiveBlocksPerMultiprocessor", "cuOccupancyMaxActiveBlocksPerMultiprocessor"),
    ),
    "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags": (
        Answer(7000, "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags"),
    ),
    "cuOccupancyMaxActiveClusters": (
        Answer(11070, "cuOccupancyMaxActiveClusters", "cuOccupancyMaxActiveClusters"),
    ),
    "cuOccupancyMaxPotentialBlockSize": (
        Answer(6050, "cuOccupancyMaxPotentialBlockSize", "cuOccupancyMaxPotentialBlockSize"),
    ),
    "cuOccupancyMaxPotentialBlockSizeWithFlags": (
        Answer(7000, "cuOccupancyMaxPotentialBlockSizeWithFlags", "cuOccupancyMaxPotentialBlockSizeWithFlags"),
    ),
    "cuOccupancyMaxPotentialClusterSize": (
        Answer(11070, "cuOccupancyMaxPotentialClusterSize", "cuOccupancyMaxPotentialClusterSize"),
    ),
    "cuParamSetSize": (
        Answer(2000, "cuParamSetSize", "cuParamSetSize"),
    ),
    "cuParamSetTexRef": (
        Answer(2000, "cuParamSetTexRef", "cuParamSetTexRef"),
    ),
    "cuParamSetf": (
        Answer(2000, "cuParamSetf", "cuParamSetf"),
    ),
    "cuParamSeti": (
        Answer(2000, "cuParamSeti", "cuParamSeti"),
    ),
    "cuParamSetv": (
        Answer(2000, "cuParamSetv", "cuParamSetv"),
    ),
    "cuPointerGetAttribute": (
        Answer(4000, "cuPointerGetAttribute", "cuPointerGetAttribute"),
    ),
    "cuPointerGetAttributes": (
        Answer(7000, "cuPointerGetAttributes", "cuPointerGetAttributes"),
    ),
    "cuPointerSetAttribute": (
        Answer(6000, "cuPointerSetAttribute", "cuPointerSetAttribute"),
    ),
    "cuProfilerInitialize": (
        Answer(4000, "cuProfilerInitialize", "cuProfilerInitialize"),
    ),
    "cuProfilerStart": (
        Answer(4000, "cuProfilerStart", "cuProfilerStart"),
    ),
    "cuProfilerStop": (
        Answer(4000, "cuProfilerStop", "cuProfilerStop"),
    ),
    "cuSignalExternalSemaphoresAsync": (
        Answer(10000, "cuSignalExternalSemaphoresAsync", "cuSignalExternalSemaphoresAsync_ptsz"),
    ),
    "cuStreamAddCallback": (
        Answer(5000, "cuStreamAddCallback", ""),
        Answer(7000, "cuStreamAddCallback", "cuStreamAddCallback_ptsz"),
    ),
    "cuStreamAttachMemAsync": (
        Answer(6000, "cuStreamAttachMemAsync", ""),
        Answer(7000, "cuStreamAttachMemAsync", "cuStreamAttachMemAsync_ptsz"),
    ),
    "cuStreamBatchMemOp": (
        Answer(8000, "cuStreamBatchMemOp", "cuStreamBatchMemOp_ptsz"),
        Answer(11070, "cuStreamBatchMemOp_v2", "cuStreamBatchMemOp_v2_ptsz"),
    ),
    "cuStreamBeginCapture": (
        Answer(10000, "cuStreamBeginCapture", "cuStreamBeginCapture_ptsz"),
        Answer(10010, "cuStreamBeginCapture_v2", "cuStreamBeginCapture_v2_ptsz"),
    ),
    "cuStreamBeginCaptureToGraph": (
        Answer(12030, "cuStreamBeginCaptureToGraph", "cuStreamBeginCaptureToGraph_ptsz"),
    ),
    "cuStreamCopyAttributes": (
        Answer(11000, "cuStreamCopyAttributes", "cuStreamCopyAttributes_ptsz"),
    ),
    "cuStreamCreate": (
        Answer(2000, "cuStreamCreate", "cuStreamCreate"),
    ),
    "cuStreamCreateWithPriority": (
        Answer(5050, "cuStreamCreateWithPriority", "cuStreamCreateWithPriority"),
    ),
    "cuStreamDestroy": (
        Answer(2000, "cuStreamDestroy", "cuStreamDestroy"),
        Answer(4000, "cuStreamDestroy_v2", "cuStreamDestroy_v2"),
    ),
    "cuStreamEndCapture": (
        Answer(10000, "cuStreamEndCapture", "cuStreamEndCapture_ptsz"),
    ),
    "cuStreamGetAttribute": (
        Answer(11000, "cuStreamGetAttribute", "cuStreamGetAttribute_ptsz"),
    ),
    "cuStreamGetCaptureInfo": (
        Answer(10010, "cuStreamGetCaptureInfo", "cuStreamGetCaptureInfo_ptsz"),
        Answer(11030, "cuStreamGetCaptureInfo_v2", "cuStreamGetCaptureInfo_v2_ptsz"),
        Answer(12030, "cuStreamGetCaptureInfo_v3", "cuStreamGetCaptureInfo_v3_ptsz"),
    ),
    "cuStreamGetCtx": (
        Answer(9020, "cuStreamGetCtx", "cuStreamGetCtx_ptsz"),
        Answer(12050, "cuStreamGetCtx_v2", "cuStreamGetCtx_v2_ptsz"),
    ),
    "cuStreamGetDevice": (
        Answer(12080, "cuStreamGetDevice", "cuStreamGetDevice_ptsz"),
    ),
    "cuStreamGetFlags": (
        Answer(5050, "cuStreamGetFlags", ""),
        Answer(7000, "cuStreamGetFlags", "cuStreamGetFlags_ptsz"),
    ),
    "cuStreamGetGreenCtx": (
        Answer(12040, "cuStreamGetGreenCtx", "cuStreamGetGreenCtx"),
    ),
    "cuStreamGetId": (
        Answer(12000, "cuStreamGetId", "cuStreamGetId_ptsz"),
    ),
    "cuStreamGetPriority": (
        Answer(5050, "cuStreamGetPriority", ""),
        Answer(7000, "cuStreamGetPriority", "cuStreamGetPriority_ptsz"),
    ),
    "cuStreamIsCapturing": (
        Answer(10000, "cuStreamIsCapturing", "cuStreamIsCapturing_ptsz"),
    ),
    "cuStreamQuery": (
        Answer(2000, "cuStreamQuery", ""),
        Answer(7000, "cuStreamQuery", "cuStreamQuery_ptsz"),
    ),
    "cuStreamSetAttribute": (
        Answer(11000, "cuStreamSetAttribute", "cuStreamSetAttribute_ptsz"),
    ),
    "cuStreamSynchronize": (
        Answer(2000, "cuStreamSynchronize", ""),
        Answer(7000, "cuStreamSynchronize", "cuStreamSynchronize_ptsz"),
    ),
    "cuStreamUpdateCaptureDependencies": (
        Answer(11030, "cuStreamUpdateCaptureDependencies", "cuStreamUpdateCaptureDependencies_ptsz"),
        Answer(12030, "cuStreamUpdateCaptureDependencies_v2", "cuStreamUpdateCaptureDependencies_v2_ptsz"),
    ),
    "cuStreamWaitEvent": (
        Answer(3020, "cuStreamWaitEvent", ""),
        Answer(7000, "cuStreamWaitEvent", "cuStreamWaitEvent_ptsz"),
    ),
    "cuStreamWaitValue32": (
        Answer(8000, "cuStreamWaitValue32", "cuStreamWaitValue32_ptsz"),
        Answer(11070, "cuStreamWaitValue32_v2", "cuStreamWaitValue32_v2_ptsz"),
    ),
    "cuStreamWaitValue64": (
        Answer(9000, "cuStreamWaitValue64", "cuStreamWaitValue64_ptsz"),
        Answer(11070, "cuStreamWaitValue64_v2", "cuStreamWaitValue64_v2_ptsz"),
    ),
    "cuStreamWriteValue32": (
        Answer(8000, "cuStreamWriteValue32", "cuStreamWriteValue32_ptsz"),
        Answer(11070, "cuStreamWriteValue32_v2", "cuStreamWriteValue32_v2_ptsz"),
    ),
    "cuStreamWriteValue64": (
        Answer(9000, "cuStreamWriteValue64", "cuStreamWriteValue64_ptsz"),
        Answer(11070, "cuStreamWriteValue64_v2", "cuStreamWriteValue64_v2_ptsz"),
    ),
    "cuSurfObjectCreate": (
        Answer(5000, "cuSurfObjectCreate", "cuSurfObjectCreate"),
    ),
    "cuSurfObjectDestroy": (
        Answer(5000, "cuSurfObjectDestroy", "cuSurfObjectDestroy"),
    ),
    "cuSurfObjectGetResourceDesc": (
        Answer(5000, "cuSurfObjectGetResourceDesc", "cuSurfObjectGetResourceDesc"),
    ),
    "cuSurfRefGetArray": (
        Answer(3000, "cuSurfRefGetArray", "cuSurfRefGetArray"),
    ),
    "cuSurfRefSetArray": (
        Answer(3000, "cuSurfRefSetArray", "cuSurfRefSetArray"),
    ),
    "cuTensorMapEncodeIm2col": (
        Answer(12000, "cuTensorMapEncodeIm2col", "cuTensorMapEncodeIm2col"),
    ),
    "cuTensorMapEncodeIm2colWide": (
        Answer(12080, "cuTensorMapEncodeIm2colWide", "cuTensorMapEncodeIm2colWide"),
    ),
    "cuTensorMapEncodeTiled": (
        Answer(12000, "cuTensorMapEncodeTiled", "cuTensorMapEncodeTiled"),
    ),
    "cuTensorMapReplaceAddress": (
        Answer(12000, "cuTensorMapReplaceAddress", "cuTensorMapReplaceAddress"),
    ),
    "cuTexObjectCreate": (
        Answer(5000, "cuTexObjectCreate", "cuTexObjectCreate"),
    ),
    "cuTexObjectDestroy": (
        Answer(5000, "cuTexObjectDestroy", "cuTexObjectDestroy"),
    ),
    "cuTexObjectGetResourceDesc": (
        Answer(5000, "cuTexObjectGetResourceDesc", "cuTexObjectGetResourceDesc"),
    ),
    "cuTexObjectGetResourceViewDesc": (
        Answer(5000, "cuTexObjectGetResourceViewDesc", "cuTexObjectGetResourceViewDesc"),
    ),
    "cuTexObjectGetTextureDesc": (
        Answer(5000, "cuTexObjectGetTextureDesc", "cuTexObjectGetTextureDesc"),
    ),
    "cuTexRefCreate": (
        Answer(2000, "cuTexRefCreate", "cuTexRefCreate"),
    ),
    "cuTexRefDestroy": (
        Answer(2000, "cuTexRefDestroy", "cuTexRefDestroy"),
    ),
    "cuTexRefGetAddress": (
        Answer(2000, "cuTexRefGetAddress", "cuTexRefGetAddress"),
        Answer(3020, "cuTexRefGetAddress_v2", "cuTexRefGetAddress_v2"),
    ),
    "cuTexRefGetAddressMode": (
        Answer(2000, "cuTexRefGetAddressMode", "cuTexRefGetAddressMode"),
    ),
    "cuTexRefGetArray": (
        Answer(2000, "cuTexRefGetArray", "cuTexRefGetArray"),
    ),
    "cuTexRefGetBorderColor": (
        Answer(8000, "cuTexRefGetBorderColor", "cuTexRefGetBorderColor"),
    ),
    "cuTexRefGetFilterMode": (
        Answer(2000, "cuTexRefGetFilterMode", "cuTexRefGetFilterMode"),
    ),
    "cuTexRefGetFlags": (
        Answer(2000, "cuTexRefGetFlags", "cuTexRefGetFlags"),
    ),
    "cuTexRefGetFormat": (
        Answer(2000, "cuTexRefGetFormat", "cuTexRefGetFormat"),
    ),
    "cuTexRefGetMaxAnisotropy": (
        Answer(5000, "cuTexRefGetMaxAnisotropy", "cuTexRefGetMaxAnisotropy"),
    ),
    "cuTexRefGetMipmapFilterMode": (
        Answer(5000, "cuTexRefGetMipmapFilterMode", "cuTexRefGetMipmapFilterMode"),
    ),
    "cuTexRefGetMipmapLevelBias": (
        Answer(5000, "cuTexRefGetMipmapLevelBias", "cuTexRefGetMipmapLevelBias"),
    ),
    "cuTexRefGetMipmapLevelClamp": (
        Answer(5000, "cuTexRefGetMipmapLevelClamp", "cuTexRefGetMipmapLevelClamp"),
    ),
    "cuTexRefGetMipmappedArray": (
        Answer(5000, "cuTexRefGetMipmappedArray", "cuTexRefGetMipmappedArray"),
    ),
    "cuTexRefSetAddress": (
        Answer(2000, "cuTexRefSetAddress", "cuTexRefSetAddress"),
        Answer(3020, "cuTexRefSetAddress_v2", "cuTexRefSetAddress_v2"),
    ),
    "cuTexRefSetAddress2D": (
        Answer(2020, "cuTexRefSetAddress2D", "cuTexRefSetAddress2D"),
        Answer(3020, "cuTexRefSetAddress2D_v2", "cuTexRefSetAddress2D_v2"),
        Answer(4010, "cuTexRefSetAddress2D_v3", "cuTexRefSetAddress2D_v3"),
    ),
    "cuTexRefSetAddressMode": (
        Answer(2000, "cuTexRefSetAddressMode", "cuTexRefSetAddressMode"),
    ),
    "cuTexRefSetArray": (
        Answer(2000, "cuTexRefSetArray", "cuTexRefSetArray"),
    ),
    "cuTexRefSetBorderColor": (
        Answer(8000, "cuTexRefSetBorderColor", "cuTexRefSetBorderColor"),
    ),
    "cuTexRefSetFilterMode": (
        Answer(2000, "cuTexRefSetFilterMode", "cuTexRefSetFilterMode"),
    ),
    "cuTexRefSetFlags": (
        Answer(2000, "cuTexRefSetFlags", "cuTexRefSetFlags"),
    ),
    "cuTexRefSetFormat": (
        Answer(2000, "cuTexRefSetFormat", "cuTexRefSetFormat"),
    ),
    "cuTexRefSetMaxAnisotropy": (
        Answer(5000, "cuTexRefSetMaxAnisotropy", "cuTexRefSetMaxAnisotropy"),
    ),
    "cuTexRefSetMipmapFilterMode": (
        Answer(5000, "cuTexRefSetMipmapFilterMode", "cuTexRefSetMipmapFilterMode"),
    ),
    "cuTexRefSetMipmapLevelBias": (
        Answer(5000, "cuTexRefSetMipmapLevelBias", "cuTexRefSetMipmapLevelBias"),
    ),
    "cuTexRefSetMipmapLevelClamp": (
        Answer(5000, "cuTexRefSetMipmapLevelClamp", "cuTexRefSetMipmapLevelClamp"),
    ),
    "cuTexRefSetMipmappedArray": (
        Answer(5000, "cuTexRefSetMipmappedArray", "cuTexRefSetMipmappedArray"),
    ),
    "cuThreadExchangeStreamCaptureMode": (
        Answer(10010, "cuThreadExchangeStreamCaptureMode", "cuThreadExchangeStreamCaptureMode"),
    ),
    "cuUserObjectCreate": (
        Answer(11030, "cuUserObjectCreate", "cuUserObjectCreate"),
    ),
    "cuUserObjectRelease": (
        Answer(11030, "cuUserObjectRelease", "cuUserObjectRelease"),
    ),
    "cuUserObjectRetain": (
        Answer(11030, "cuUserObjectRetain", "cuUserObjectRetain"),
    ),
    "cuVDPAUCtxCreate": (
        Answer(3010, "cuVDPAUCtxCreate", "cuVDPAUCtxCreate"),
        Answer(3020, "cuVDPAUCtxCreate_v2", "cuVDPAUCtxCreate_v2"),
    ),
    "cuVDPAUGetDevice": (
        Answer(3010, "cuVDPAUGetDevice", "cuVDPAUGetDevice"),
    ),
    "cuWaitExternalSemaphoresAsync": (
        Answer(10000, "cuWaitExternalSemaphoresAsync", "cuWaitExternalSemaphoresAsync_ptsz"),
    ),
}
