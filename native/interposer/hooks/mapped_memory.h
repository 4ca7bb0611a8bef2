// The driver's own handles of mapped memory: calls go to the driver, and what a checkpoint cannot save is counted.
#pragma once

#include "../../abi/cuda_driver.h"

namespace torpor::residual {

CUresult import_handle(CUmemGenericAllocationHandle* handle, void* os_handle, CUmemAllocationHandleType type);
CUresult map_handle(CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                    unsigned long long flags);
CUresult unmap(CUdeviceptr address, size_t size);
CUresult release_handle(CUmemGenericAllocationHandle handle);

}  // namespace torpor::residual
