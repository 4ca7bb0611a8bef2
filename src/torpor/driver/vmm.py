"""Device memory by handle: made or imported, mapped side by side, exported by descriptor.

Handles and addresses are plain integers; sizes are bytes and multiples of `granularity`.
"""

from __future__ import annotations

from cuda.bindings import driver as cu

from torpor.driver.devices import Device
from torpor.driver.results import check

_POSIX = cu.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR


def _properties(device: Device) -> cu.CUmemAllocationProp:
    properties = cu.CUmemAllocationProp()
    properties.type = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    properties.requestedHandleTypes = _POSIX
    properties.location.type = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    properties.location.id = device.ordinal
    if device.rdma:
        # Native allocations can be registered for RDMA, so what replaces them must be, too; so for decompression.
        properties.allocFlags.gpuDirectRDMACapable = 1
    if device.decompression:
        properties.allocFlags.usage = 2  # CU_MEM_CREATE_USAGE_HW_DECOMPRESS
    return properties


def granularity(device: Device) -> int:
    """Smallest unit of a block on this device, in bytes."""
    which = cu.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
    call = cu.cuMemGetAllocationGranularity(_properties(device), which)
    return int(check("cuMemGetAllocationGranularity", call))


def create(device: Device, size: int) -> int:
    """A new exportable handle of `size` bytes; NoSpace when the device lacks them."""
    return int(check("cuMemCreate", cu.cuMemCreate(size, _properties(device), 0)))


def import_descriptor(descriptor: int) -> int:
    """The handle behind a descriptor, which stays the caller's to close."""
    return int(check("cuMemImportFromShareableHandle", cu.cuMemImportFromShareableHandle(descriptor, _POSIX)))


def export_descriptor(handle: int) -> int:
    """A new descriptor of a handle that this process made (not one it imported); the caller closes it."""
    call = cu.cuMemExportToShareableHandle(_handle(handle), _POSIX, 0)
    return int(check("cuMemExportToShareableHandle", call))


def release(handle: int) -> None:
    """Give up a handle; the memory goes when the last mapping and descriptor are gone."""
    check("cuMemRelease", cu.cuMemRelease(_handle(handle)))


def reserve(size: int) -> int:
    """A free range of addresses."""
    return int(check("cuMemAddressReserve", cu.cuMemAddressReserve(size, 0, cu.CUdeviceptr(0), 0)))


def free_addresses(address: int, size: int) -> None:
    check("cuMemAddressFree", cu.cuMemAddressFree(cu.CUdeviceptr(address), size))


def map_handle(address: int, size: int, handle: int) -> None:
    check("cuMemMap", cu.cuMemMap(cu.CUdeviceptr(address), size, 0, _handle(handle), 0))


def unmap(address: int, size: int) -> None:
    check("cuMemUnmap", cu.cuMemUnmap(cu.CUdeviceptr(address), size))


def allow(address: int, size: int, device: Device) -> None:
    """Let the device read and write a range of mapped memory; one call for many blocks."""
    access = cu.CUmemAccessDesc()
    access.location.type = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    access.location.id = device.ordinal
    access.flags = cu.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    check("cuMemSetAccess", cu.cuMemSetAccess(cu.CUdeviceptr(address), size, [access], 1))


def _handle(handle: int) -> cu.CUmemGenericAllocationHandle:
    return cu.CUmemGenericAllocationHandle(handle)
