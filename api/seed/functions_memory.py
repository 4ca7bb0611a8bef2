# ruff: noqa: E501
"""Functions of the memory family: linear, managed and pinned memory, pointer queries. Seeded by `python -m gen.seed` from driver API 13000; do not edit."""

from api.model import Function

FUNCTIONS: tuple[Function, ...] = (
    Function("cuMemAdvise", ("CUdeviceptr devPtr", "size_t count", "CUmem_advise advice", "CUdevice device",)),
    Function("cuMemAdvise_v2", ("CUdeviceptr devPtr", "size_t count", "CUmem_advise advice", "CUmemLocation location",)),
    Function("cuMemAlloc", ("CUdeviceptr_v1 *dptr", "unsigned int bytesize",)),
    Function("cuMemAllocHost", ("void **pp", "unsigned int bytesize",)),
    Function("cuMemAllocHost_v2", ("void **pp", "size_t bytesize",)),
    Function("cuMemAllocManaged", ("CUdeviceptr *dptr", "size_t bytesize", "unsigned int flags",)),
    Function("cuMemAllocPitch", ("CUdeviceptr_v1 *dptr", "unsigned int *pPitch", "unsigned int WidthInBytes", "unsigned int Height", "unsigned int ElementSizeBytes",)),
    Function("cuMemAllocPitch_v2", ("CUdeviceptr *dptr", "size_t *pPitch", "size_t WidthInBytes", "size_t Height", "unsigned int ElementSizeBytes",)),
    Function("cuMemAlloc_v2", ("CUdeviceptr *dptr", "size_t bytesize",)),
    Function("cuMemFree", ("CUdeviceptr_v1 dptr",)),
    Function("cuMemFreeHost", ("void *p",)),
    Function("cuMemFree_v2", ("CUdeviceptr dptr",)),
    Function("cuMemGetAddressRange", ("CUdeviceptr_v1 *pbase", "unsigned int *psize", "CUdeviceptr_v1 dptr",)),
    Function("cuMemGetAddressRange_v2", ("CUdeviceptr *pbase", "size_t *psize", "CUdeviceptr dptr",)),
    Function("cuMemGetAttribute", None),
    Function("cuMemGetAttribute_v2", None),
    Function("cuMemGetInfo", ("unsigned int *free", "unsigned int *total",)),
    Function("cuMemGetInfo_v2", ("size_t *free", "size_t *total",)),
    Function("cuMemHostAlloc", ("void **pp", "size_t bytesize", "unsigned int Flags",)),
    Function("cuMemHostGetDevicePointer", ("CUdeviceptr_v1 *pdptr", "void *p", "unsigned int Flags",)),
    Function("cuMemHostGetDevicePointer_v2", ("CUdeviceptr *pdptr", "void *p", "unsigned int Flags",)),
    Function("cuMemHostGetFlags", ("unsigned int *pFlags", "void *p",)),
    Function("cuMemHostRegister", ("void *p", "size_t bytesize", "unsigned int Flags",)),
    Function("cuMemHostRegister_v2", ("void *p", "size_t bytesize", "unsigned int Flags",)),
    Function("cuMemHostUnregister", ("void *p",)),
    Function("cuMemRangeGetAttribute", ("void *data", "size_t dataSize", "CUmem_range_attribute attribute", "CUdeviceptr devPtr", "size_t count",)),
    Function("cuMemRangeGetAttributes", ("void **data", "size_t *dataSizes", "CUmem_range_attribute *attributes", "size_t numAttributes", "CUdeviceptr devPtr", "size_t count",)),
    Function("cuPointerGetAttribute", ("void *data", "CUpointer_attribute attribute", "CUdeviceptr ptr",)),
    Function("cuPointerGetAttributes", ("unsigned int numAttributes", "CUpointer_attribute *attributes", "void **data", "CUdeviceptr ptr",)),
    Function("cuPointerSetAttribute", ("const void *value", "CUpointer_attribute attribute", "CUdeviceptr ptr",)),
)
