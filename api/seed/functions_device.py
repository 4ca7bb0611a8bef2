# ruff: noqa: E501
"""Functions of the device family: devices and their properties. Seeded by `python -m gen.seed` from driver API 13000; do not edit."""

from api.model import Function

FUNCTIONS: tuple[Function, ...] = (
    Function("cuDeviceComputeCapability", ("int *major", "int *minor", "CUdevice dev",)),
    Function("cuDeviceGet", ("CUdevice *device", "int ordinal",)),
    Function("cuDeviceGetAttribute", ("int *pi", "CUdevice_attribute attrib", "CUdevice dev",)),
    Function("cuDeviceGetByPCIBusId", ("CUdevice *dev", "const char *pciBusId",)),
    Function("cuDeviceGetCount", ("int *count",)),
    Function("cuDeviceGetExecAffinitySupport", ("int *pi", "CUexecAffinityType type", "CUdevice dev",)),
    Function("cuDeviceGetHostAtomicCapabilities", ("unsigned int *capabilities", "const CUatomicOperation *operations", "unsigned int count", "CUdevice dev",)),
    Function("cuDeviceGetLuid", ("char *luid", "unsigned int *deviceNodeMask", "CUdevice dev",)),
    Function("cuDeviceGetName", ("char *name", "int len", "CUdevice dev",)),
    Function("cuDeviceGetNvSciSyncAttributes", ("void *nvSciSyncAttrList", "CUdevice dev", "int flags",)),
    Function("cuDeviceGetP2PAtomicCapabilities", ("unsigned int *capabilities", "const CUatomicOperation *operations", "unsigned int count", "CUdevice srcDevice", "CUdevice dstDevice",)),
    Function("cuDeviceGetP2PAttribute", ("int *value", "CUdevice_P2PAttribute attrib", "CUdevice srcDevice", "CUdevice dstDevice",)),
    Function("cuDeviceGetPCIBusId", ("char *pciBusId", "int len", "CUdevice dev",)),
    Function("cuDeviceGetProperties", ("CUdevprop *prop", "CUdevice dev",)),
    Function("cuDeviceGetTexture1DLinearMaxWidth", ("size_t *maxWidthInElements", "CUarray_format format", "unsigned numChannels", "CUdevice dev",)),
    Function("cuDeviceGetUuid", ("CUuuid *uuid", "CUdevice dev",)),
    Function("cuDeviceGetUuid_v2", ("CUuuid *uuid", "CUdevice dev",)),
    Function("cuDeviceRegisterAsyncNotification", ("CUdevice device", "CUasyncCallback callbackFunc", "void *userData", "CUasyncCallbackHandle *callback",)),
    Function("cuDeviceTotalMem", ("unsigned int *bytes", "CUdevice dev",)),
    Function("cuDeviceTotalMem_v2", ("size_t *bytes", "CUdevice dev",)),
    Function("cuDeviceUnregisterAsyncNotification", ("CUdevice device", "CUasyncCallbackHandle callback",)),
    Function("cuFlushGPUDirectRDMAWrites", ("CUflushGPUDirectRDMAWritesTarget target", "CUflushGPUDirectRDMAWritesScope scope",)),
)
