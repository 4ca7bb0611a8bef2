// Counting memory that was imported by descriptor, and multicast objects. A handle may be released while its mapping lives
// on, so both count.
#include "mapped_memory.h"

#include "../generated/hooks.h"
#include "../generated/real.h"
#include "residual_key.h"

namespace torpor::residual {

CUresult import_handle(CUmemGenericAllocationHandle* handle, void* os_handle, CUmemAllocationHandleType type) {
  return noted(real::cuMemImportFromShareableHandle(handle, os_handle, type), Kind::vmm_imported, handle);
}

CUresult map_handle(CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                    unsigned long long flags) {
  const CUresult result = real::cuMemMap(address, size, offset, handle, flags);
  if (result != CUDA_SUCCESS) return result;
  constexpr Kind kKinds[] = {Kind::vmm_imported, Kind::multicast};
  for (const Kind kind : kKinds) {
    if (contains(kind, handle)) add(kind, address, size);
  }
  return result;
}

CUresult unmap(CUdeviceptr address, size_t size) {
  const CUresult result = real::cuMemUnmap(address, size);
  if (result != CUDA_SUCCESS) return result;
  remove_range(Kind::vmm_imported, address, size);
  remove_range(Kind::multicast, address, size);
  return result;
}

CUresult release_handle(CUmemGenericAllocationHandle handle) {
  const CUresult result = real::cuMemRelease(handle);
  if (result != CUDA_SUCCESS) return result;
  remove(Kind::vmm_imported, handle);
  remove(Kind::multicast, handle);
  return result;
}

}  // namespace torpor::residual

extern "C" CUresult torpor_hook_cuMulticastCreate(CUmemGenericAllocationHandle* mcHandle,
                                                  const CUmulticastObjectProp* prop) {
  return torpor::residual::noted(torpor::real::cuMulticastCreate(mcHandle, prop), torpor::residual::Kind::multicast,
                                 mcHandle);
}
