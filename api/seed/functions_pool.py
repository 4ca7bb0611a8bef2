# ruff: noqa: E501
"""Functions of the pool family: stream-ordered allocation and memory pools. Seeded by `python -m gen.seed` from driver API 13000; do not edit."""

from api.model import Function

FUNCTIONS: tuple[Function, ...] = (
    Function("cuDeviceGetDefaultMemPool", ("CUmemoryPool *pool_out", "CUdevice dev",)),
    Function("cuDeviceGetGraphMemAttribute", ("CUdevice device", "CUgraphMem_attribute attr", "void *value",)),
    Function("cuDeviceGetMemPool", ("CUmemoryPool *pool", "CUdevice dev",)),
    Function("cuDeviceGraphMemTrim", ("CUdevice device",)),
    Function("cuDeviceSetGraphMemAttribute", ("CUdevice device", "CUgraphMem_attribute attr", "void *value",)),
    Function("cuDeviceSetMemPool", ("CUdevice dev", "CUmemoryPool pool",)),
    Function("cuMemAllocAsync", ("CUdeviceptr *dptr", "size_t bytesize", "CUstream hStream",)),
    Function("cuMemAllocAsync_ptsz", ("CUdeviceptr *dptr", "size_t bytesize", "CUstream hStream",)),
    Function("cuMemAllocFromPoolAsync", ("CUdeviceptr *dptr", "size_t bytesize", "CUmemoryPool pool", "CUstream hStream",)),
    Function("cuMemAllocFromPoolAsync_ptsz", ("CUdeviceptr *dptr", "size_t bytesize", "CUmemoryPool pool", "CUstream hStream",)),
    Function("cuMemFreeAsync", ("CUdeviceptr dptr", "CUstream hStream",)),
    Function("cuMemFreeAsync_ptsz", ("CUdeviceptr dptr", "CUstream hStream",)),
    Function("cuMemGetDefaultMemPool", ("CUmemoryPool *pool_out", "CUmemLocation *location", "CUmemAllocationType type",)),
    Function("cuMemGetMemPool", ("CUmemoryPool *pool", "CUmemLocation *location", "CUmemAllocationType type",)),
    Function("cuMemPoolCreate", ("CUmemoryPool *pool", "const CUmemPoolProps *poolProps",)),
    Function("cuMemPoolDestroy", ("CUmemoryPool pool",)),
    Function("cuMemPoolExportPointer", ("CUmemPoolPtrExportData *shareData_out", "CUdeviceptr ptr",)),
    Function("cuMemPoolExportToShareableHandle", ("void *handle_out", "CUmemoryPool pool", "CUmemAllocationHandleType handleType", "unsigned long long flags",)),
    Function("cuMemPoolGetAccess", ("CUmemAccess_flags *flags", "CUmemoryPool memPool", "CUmemLocation *location",)),
    Function("cuMemPoolGetAttribute", ("CUmemoryPool pool", "CUmemPool_attribute attr", "void *value",)),
    Function("cuMemPoolImportFromShareableHandle", ("CUmemoryPool *pool_out", "void *handle", "CUmemAllocationHandleType handleType", "unsigned long long flags",)),
    Function("cuMemPoolImportPointer", ("CUdeviceptr *ptr_out", "CUmemoryPool pool", "CUmemPoolPtrExportData *shareData",)),
    Function("cuMemPoolSetAccess", ("CUmemoryPool pool", "const CUmemAccessDesc *map", "size_t count",)),
    Function("cuMemPoolSetAttribute", ("CUmemoryPool pool", "CUmemPool_attribute attr", "void *value",)),
    Function("cuMemPoolTrimTo", ("CUmemoryPool pool", "size_t minBytesToKeep",)),
    Function("cuMemSetMemPool", ("CUmemLocation *location", "CUmemAllocationType type", "CUmemoryPool pool",)),
)
