# ruff: noqa: E501
"""Functions of the vmm family: address ranges, physical handles, mappings, multicast. Seeded by `python -m gen.seed` from driver API 13000; do not edit."""

from api.model import Function

FUNCTIONS: tuple[Function, ...] = (
    Function("cuMemAddressFree", ("CUdeviceptr ptr", "size_t size",)),
    Function("cuMemAddressReserve", ("CUdeviceptr *ptr", "size_t size", "size_t alignment", "CUdeviceptr addr", "unsigned long long flags",)),
    Function("cuMemCreate", ("CUmemGenericAllocationHandle *handle", "size_t size", "const CUmemAllocationProp *prop", "unsigned long long flags",)),
    Function("cuMemExportToShareableHandle", ("void *shareableHandle", "CUmemGenericAllocationHandle handle", "CUmemAllocationHandleType handleType", "unsigned long long flags",)),
    Function("cuMemGetAccess", ("unsigned long long *flags", "const CUmemLocation *location", "CUdeviceptr ptr",)),
    Function("cuMemGetAllocationGranularity", ("size_t *granularity", "const CUmemAllocationProp *prop", "CUmemAllocationGranularity_flags option",)),
    Function("cuMemGetAllocationPropertiesFromHandle", ("CUmemAllocationProp *prop", "CUmemGenericAllocationHandle handle",)),
    Function("cuMemGetHandleForAddressRange", ("void *handle", "CUdeviceptr dptr", "size_t size", "CUmemRangeHandleType handleType", "unsigned long long flags",)),
    Function("cuMemImportFromShareableHandle", ("CUmemGenericAllocationHandle *handle", "void *osHandle", "CUmemAllocationHandleType shHandleType",)),
    Function("cuMemMap", ("CUdeviceptr ptr", "size_t size", "size_t offset", "CUmemGenericAllocationHandle handle", "unsigned long long flags",)),
    Function("cuMemMapArrayAsync", ("CUarrayMapInfo *mapInfoList", "unsigned int count", "CUstream hStream",)),
    Function("cuMemMapArrayAsync_ptsz", ("CUarrayMapInfo *mapInfoList", "unsigned int count", "CUstream hStream",)),
    Function("cuMemRelease", ("CUmemGenericAllocationHandle handle",)),
    Function("cuMemRetainAllocationHandle", ("CUmemGenericAllocationHandle *handle", "void *addr",)),
    Function("cuMemSetAccess", ("CUdeviceptr ptr", "size_t size", "const CUmemAccessDesc *desc", "size_t count",)),
    Function("cuMemUnmap", ("CUdeviceptr ptr", "size_t size",)),
    Function("cuMulticastAddDevice", ("CUmemGenericAllocationHandle mcHandle", "CUdevice dev",)),
    Function("cuMulticastBindAddr", ("CUmemGenericAllocationHandle mcHandle", "size_t mcOffset", "CUdeviceptr memptr", "size_t size", "unsigned long long flags",)),
    Function("cuMulticastBindMem", ("CUmemGenericAllocationHandle mcHandle", "size_t mcOffset", "CUmemGenericAllocationHandle memHandle", "size_t memOffset", "size_t size", "unsigned long long flags",)),
    Function("cuMulticastCreate", ("CUmemGenericAllocationHandle *mcHandle", "const CUmulticastObjectProp *prop",)),
    Function("cuMulticastGetGranularity", ("size_t *granularity", "const CUmulticastObjectProp *prop", "CUmulticastGranularity_flags option",)),
    Function("cuMulticastUnbind", ("CUmemGenericAllocationHandle mcHandle", "CUdevice dev", "size_t mcOffset", "size_t size",)),
)
