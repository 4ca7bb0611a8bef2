// Overrides of the calls that make, free and describe device memory.
#include "../gate/gate.h"
#include "../generated/hooks.h"
#include "../generated/real.h"
#include "../hooks/residual.h"
#include "../managed/host_backed.h"
#include "arena.h"
#include "guarded.h"
#include "pools.h"

namespace torpor::arena {
namespace {

// Rows start where the hardware likes them to, on every architecture that the arena serves.
constexpr std::size_t kPitch = 512;

// Runs inside the gate, but waits outside of it: a thread that waits for the GPU does not hold up a freeze.
CUresult free_managed(const managed::Allocation& allocation, CUdeviceptr pointer) {
  if (allocation.address != pointer) return CUDA_ERROR_INVALID_VALUE;
  const CUresult waited = managed::wait(allocation);
  if (waited != CUDA_SUCCESS) return waited;
  const gate::Scope inside("cuMemFree_v2");
  return managed::release(allocation) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult free_memory(CUdeviceptr pointer) {
  if (const auto host_backed = managed::find(pointer)) return free_managed(*host_backed, pointer);
  Arena* const arena = Arena::get();
  if (arena == nullptr) return real::cuMemFree_v2(pointer);
  std::optional<Allocation> allocation;
  {
    const gate::Scope inside("cuMemFree_v2");
    allocation = arena->find(pointer);
    if (!allocation) return arena->contains(pointer) ? CUDA_ERROR_INVALID_VALUE : real::cuMemFree_v2(pointer);
    if (allocation->address != pointer || allocation->opens != 0) return CUDA_ERROR_INVALID_VALUE;
    CUcontext current = nullptr;
    CUresult result = real::cuCtxGetCurrent(&current);
    if (result != CUDA_SUCCESS) return result;
    if (current == nullptr) {
      // Whether a free needs a current context is the driver's to say.
      result = real::cuMemFree_v2(pointer);
      if (contexts::is_gone(result)) return result;
    }
    contexts::Context here;
    if (active_captures() > 0 && contexts::current(here) == CUDA_SUCCESS) {
      // During a capture in global or thread-local mode the driver refuses a free as it refuses an allocation.
      result = arena->probe_capture(here);
      if (result != CUDA_SUCCESS) return result;
    }
    if (allocation->pool != nullptr && pools::free_at_once(*allocation, result)) return result;
  }
  const std::optional<CUresult> waited = [&] {
    const gate::Waiting waiting("cuMemFree_v2");
    return arena->wait_until_unused(*allocation);
  }();
  if (waited && *waited != CUDA_SUCCESS) return *waited;
  const gate::Scope inside("cuMemFree_v2");
  return arena->release(*allocation, waited.has_value()) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace
}  // namespace torpor::arena

using torpor::arena::Arena;
using torpor::arena::guarded;
namespace real = torpor::real;

extern "C" CUresult torpor_hook_cuMemAlloc_v2(CUdeviceptr* dptr, size_t bytesize) {
  return guarded([&] {
    Arena* const arena = Arena::get();
    if (arena == nullptr || dptr == nullptr || bytesize == 0) return real::cuMemAlloc_v2(dptr, bytesize);
    const auto result = arena->allocate(bytesize, *dptr);
    return result ? *result : real::cuMemAlloc_v2(dptr, bytesize);
  });
}

extern "C" CUresult torpor_hook_cuMemAllocPitch_v2(CUdeviceptr* dptr, size_t* pPitch, size_t WidthInBytes,
                                                   size_t Height, unsigned int ElementSizeBytes) {
  return guarded([&] {
    const auto forward = [&] {
      return real::cuMemAllocPitch_v2(dptr, pPitch, WidthInBytes, Height, ElementSizeBytes);
    };
    Arena* const arena = Arena::get();
    const bool valid = dptr != nullptr && pPitch != nullptr && WidthInBytes != 0 && Height != 0 &&
                       (ElementSizeBytes == 4 || ElementSizeBytes == 8 || ElementSizeBytes == 16);
    std::size_t pitch = 0;
    std::size_t size = 0;
    if (arena == nullptr || !valid || __builtin_add_overflow(WidthInBytes, torpor::arena::kPitch - 1, &pitch)) {
      return forward();
    }
    pitch = pitch / torpor::arena::kPitch * torpor::arena::kPitch;
    if (__builtin_mul_overflow(pitch, Height, &size)) return forward();
    const auto result = arena->allocate(size, *dptr);
    if (!result) return forward();
    if (*result == CUDA_SUCCESS) *pPitch = pitch;
    return *result;
  });
}

extern "C" CUresult torpor_hook_cuMemFree_v2(CUdeviceptr dptr) {
  return guarded([&] { return torpor::arena::free_memory(dptr); });
}

extern "C" CUresult torpor_hook_cuMemGetAddressRange_v2(CUdeviceptr* pbase, size_t* psize, CUdeviceptr dptr) {
  return guarded([&] {
    if (const auto host_backed = torpor::managed::find(dptr)) {
      if (pbase != nullptr) *pbase = host_backed->address;
      if (psize != nullptr) *psize = host_backed->size;
      return CUDA_SUCCESS;
    }
    Arena* const arena = Arena::get();
    if (arena == nullptr) return real::cuMemGetAddressRange_v2(pbase, psize, dptr);
    const auto allocation = arena->find(dptr);
    if (!allocation) {
      return real::cuMemGetAddressRange_v2(pbase, psize, arena->contains(dptr) ? torpor::arena::kNowhere : dptr);
    }
    if (pbase != nullptr) *pbase = allocation->address;
    if (psize != nullptr) *psize = allocation->size;
    return CUDA_SUCCESS;
  });
}
