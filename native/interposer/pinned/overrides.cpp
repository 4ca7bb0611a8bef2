// The calls that make, free and describe pinned host memory. What is not ours is the driver's.
#include "../arena/guarded.h"
#include "../generated/hooks.h"
#include "../generated/real.h"
#include "../vm/pinned.h"
#include "owned.h"
#include "registered.h"

namespace pinned = torpor::pinned;
namespace real = torpor::real;
namespace known = torpor::vm::pinned;

namespace {

std::optional<pinned::Allocation> holding(const void* address) {
  return pinned::holding(reinterpret_cast<CUdeviceptr>(address));
}

template <typename Driver>
CUresult allocate(void** out, std::size_t size, unsigned int flags, Driver driver) {
  return torpor::arena::guarded([&] {
    if (out != nullptr) {
      if (const auto made = pinned::allocate(size, flags)) {
        *out = *made;
        known::note(*out, size);
        return CUDA_SUCCESS;
      }
    }
    const CUresult result = driver();
    if (result == CUDA_SUCCESS) known::note(*out, size);
    return result;
  });
}

CUresult enrol(const pinned::registered::Call& call) {
  return torpor::arena::guarded(
      [&] { return holding(call.base) ? CUDA_ERROR_INVALID_VALUE : pinned::registered::enrol(call); });
}

}  // namespace

extern "C" CUresult torpor_hook_cuMemHostAlloc(void** pp, size_t bytesize, unsigned int Flags) {
  return allocate(pp, bytesize, Flags, [&] { return real::cuMemHostAlloc(pp, bytesize, Flags); });
}

extern "C" CUresult torpor_hook_cuMemAllocHost(void** pp, unsigned int bytesize) {
  return allocate(pp, bytesize, 0, [&] { return real::cuMemAllocHost(pp, bytesize); });
}

extern "C" CUresult torpor_hook_cuMemAllocHost_v2(void** pp, size_t bytesize) {
  return allocate(pp, bytesize, 0, [&] { return real::cuMemAllocHost_v2(pp, bytesize); });
}

extern "C" CUresult torpor_hook_cuMemFreeHost(void* p) {
  return torpor::arena::guarded([&] {
    known::forget(p);
    const auto freed = pinned::release(p);
    return freed ? *freed : real::cuMemFreeHost(p);
  });
}

// As the driver says it: all of its host memory is mapped for devices.
extern "C" CUresult torpor_hook_cuMemHostGetFlags(unsigned int* pFlags, void* p) {
  return torpor::arena::guarded([&] {
    const CUresult result = real::cuMemHostGetFlags(pFlags, p);
    if (result != CUDA_SUCCESS) return result;
    if (const auto ours = holding(p)) *pFlags = ours->flags | CU_MEMHOSTALLOC_DEVICEMAP;
    return result;
  });
}

// To register what cuMemHostAlloc made, or to take it back in this way, is a mistake that the driver tells by this code.
extern "C" CUresult torpor_hook_cuMemHostRegister_v2(void* p, size_t bytesize, unsigned int Flags) {
  return enrol({real::cuMemHostRegister_v2, p, bytesize, Flags});
}

extern "C" CUresult torpor_hook_cuMemHostRegister(void* p, size_t bytesize, unsigned int Flags) {
  return enrol({real::cuMemHostRegister, p, bytesize, Flags});
}

extern "C" CUresult torpor_hook_cuMemHostUnregister(void* p) {
  return torpor::arena::guarded(
      [&] { return holding(p) ? CUDA_ERROR_INVALID_VALUE : pinned::registered::withdraw(p); });
}
