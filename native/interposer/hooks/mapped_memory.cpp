// Counting memory that was imported by descriptor, and multicast objects. A handle may be released while its mapping lives
// on, so both count.
#include "../generated/hooks.h"
#include "../generated/real.h"
#include "residual_key.h"

namespace real = torpor::real;
using torpor::residual::Kind;
using torpor::residual::noted;

extern "C" CUresult torpor_hook_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* osHandle,
                                                               CUmemAllocationHandleType shHandleType) {
  return noted(real::cuMemImportFromShareableHandle(handle, osHandle, shHandleType), Kind::vmm_imported, handle);
}

extern "C" CUresult torpor_hook_cuMulticastCreate(CUmemGenericAllocationHandle* mcHandle,
                                                  const CUmulticastObjectProp* prop) {
  return noted(real::cuMulticastCreate(mcHandle, prop), Kind::multicast, mcHandle);
}

extern "C" CUresult torpor_hook_cuMemMap(CUdeviceptr ptr, size_t size, size_t offset,
                                         CUmemGenericAllocationHandle handle, unsigned long long flags) {
  const CUresult result = real::cuMemMap(ptr, size, offset, handle, flags);
  if (result != CUDA_SUCCESS) return result;
  constexpr Kind kKinds[] = {Kind::vmm_imported, Kind::multicast};
  for (const Kind kind : kKinds) {
    if (torpor::residual::contains(kind, handle)) torpor::residual::add(kind, ptr, size);
  }
  return result;
}

extern "C" CUresult torpor_hook_cuMemUnmap(CUdeviceptr ptr, size_t size) {
  const CUresult result = real::cuMemUnmap(ptr, size);
  if (result != CUDA_SUCCESS) return result;
  torpor::residual::remove_range(Kind::vmm_imported, ptr, size);
  torpor::residual::remove_range(Kind::multicast, ptr, size);
  return result;
}

extern "C" CUresult torpor_hook_cuMemRelease(CUmemGenericAllocationHandle handle) {
  const CUresult result = real::cuMemRelease(handle);
  if (result != CUDA_SUCCESS) return result;
  torpor::residual::remove(Kind::vmm_imported, handle);
  torpor::residual::remove(Kind::multicast, handle);
  return result;
}
