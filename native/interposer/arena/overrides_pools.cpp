// Overrides of stream-ordered allocation and of what concerns pools.
#include "../gate/gate.h"
#include "../generated/hooks.h"
#include "../generated/real.h"
#include "../hooks/residual_key.h"
#include "arena.h"
#include "guarded.h"
#include "pools.h"

namespace torpor::arena {
namespace {

template <typename Driver>
CUresult allocate(CUdeviceptr* out, std::uint64_t size, CUmemoryPool pool, CUstream stream, bool per_thread, Driver driver) {
  return guarded([&] {
    const auto ours = out != nullptr ? pools::allocate(size, pool, stream, per_thread, *out) : std::nullopt;
    return ours ? *ours : driver();
  });
}

// What the driver says to work in the stream that changes nothing.
CUresult work_in(CUstream stream) {
  CUevent event = nullptr;
  CUresult result = real::cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
  if (result != CUDA_SUCCESS) return result;
  result = real::cuEventRecord(event, stream);
  real::cuEventDestroy_v2(event);
  return result;
}

// Memory that is no pool's, and streams that we know nothing of: freed as cuMemFree does, which is right if slower.
template <typename Driver, typename IsCapturing>
CUresult free(CUdeviceptr address, CUstream stream, bool per_thread, Driver driver, IsCapturing is_capturing) {
  Arena* const arena = Arena::get();
  {
    const gate::Scope inside("cuMemFreeAsync");
    const auto allocation = arena != nullptr ? arena->find(address) : std::nullopt;
    if (!allocation) return driver(arena != nullptr && arena->contains(address) ? kNowhere : address);
    if (allocation->address != address || allocation->opens != 0) return CUDA_ERROR_INVALID_VALUE;
    if (active_captures() > 0) {
      CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
      const CUresult asked = is_capturing(stream, &status);
      if (asked == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE) {
        return driver(kNowhere);  // what no graph allocated no graph can free
      }
      // The legacy stream would have to wait for one that is captured. Whoever works in it ends that capture.
      if (asked == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) {
        const CUresult refused = work_in(stream);
        if (refused != CUDA_SUCCESS) return refused;
      }
      contexts::Context here;
      const CUresult refused = contexts::current(here) == CUDA_SUCCESS ? arena->probe_capture(here) : CUDA_SUCCESS;
      if (refused != CUDA_SUCCESS) return refused;
    }
    if (allocation->pool != nullptr) {
      const CUresult result = pools::free(*allocation, stream, per_thread);
      if (result != CUDA_ERROR_NOT_SUPPORTED) return result;
    }
  }
  return torpor_hook_cuMemFree_v2(address);
}

}  // namespace
}  // namespace torpor::arena

void torpor::arena::pools::detail::after_wait_slowly() {
  const gate::Scope inside("synchronize");
  give_back_surplus();
}

using torpor::arena::guarded;
namespace arena_ = torpor::arena;
namespace pools = torpor::arena::pools;
namespace real = torpor::real;

extern "C" CUresult torpor_hook_cuMemAllocAsync(CUdeviceptr* dptr, size_t bytesize, CUstream hStream) {
  return arena_::allocate(dptr, bytesize, nullptr, hStream, false,
                          [&] { return real::cuMemAllocAsync(dptr, bytesize, hStream); });
}

extern "C" CUresult torpor_hook_cuMemAllocAsync_ptsz(CUdeviceptr* dptr, size_t bytesize, CUstream hStream) {
  return arena_::allocate(dptr, bytesize, nullptr, hStream, true,
                          [&] { return real::cuMemAllocAsync_ptsz(dptr, bytesize, hStream); });
}

extern "C" CUresult torpor_hook_cuMemAllocFromPoolAsync(CUdeviceptr* dptr, size_t bytesize, CUmemoryPool pool,
                                                        CUstream hStream) {
  const auto driver = [&] { return real::cuMemAllocFromPoolAsync(dptr, bytesize, pool, hStream); };
  return pool == nullptr ? driver() : arena_::allocate(dptr, bytesize, pool, hStream, false, driver);
}

extern "C" CUresult torpor_hook_cuMemAllocFromPoolAsync_ptsz(CUdeviceptr* dptr, size_t bytesize, CUmemoryPool pool,
                                                             CUstream hStream) {
  const auto driver = [&] { return real::cuMemAllocFromPoolAsync_ptsz(dptr, bytesize, pool, hStream); };
  return pool == nullptr ? driver() : arena_::allocate(dptr, bytesize, pool, hStream, true, driver);
}

extern "C" CUresult torpor_hook_cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream) {
  return guarded([&] {
    return arena_::free(dptr, hStream, false, [&](CUdeviceptr address) { return real::cuMemFreeAsync(address, hStream); },
                        real::cuStreamIsCapturing);
  });
}

extern "C" CUresult torpor_hook_cuMemFreeAsync_ptsz(CUdeviceptr dptr, CUstream hStream) {
  return guarded([&] {
    return arena_::free(dptr, hStream, true,
                        [&](CUdeviceptr address) { return real::cuMemFreeAsync_ptsz(address, hStream); },
                        real::cuStreamIsCapturing_ptsz);
  });
}

extern "C" CUresult torpor_hook_cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* poolProps) {
  return guarded([&] {
    const CUresult result = real::cuMemPoolCreate(pool, poolProps);
    if (result == CUDA_SUCCESS) pools::created(*pool, *poolProps);
    return result;
  });
}

extern "C" CUresult torpor_hook_cuMemPoolDestroy(CUmemoryPool pool) {
  return guarded([&] {
    pools::Destruction ours(pool);
    return ours.ended(
        torpor::residual::forgotten(real::cuMemPoolDestroy(pool), torpor::residual::Kind::ipc_imported, pool));
  });
}

extern "C" CUresult torpor_hook_cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep) {
  return guarded([&] {
    const CUresult result = real::cuMemPoolTrimTo(pool, minBytesToKeep);
    if (result == CUDA_SUCCESS) pools::trim(pool, minBytesToKeep);
    return result;
  });
}

extern "C" CUresult torpor_hook_cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* map, size_t count) {
  return guarded([&] {
    CUresult result = real::cuMemPoolSetAccess(pool, map, count);
    for (std::size_t i = 0; result == CUDA_SUCCESS && i < count; ++i) {
      const bool opens = map[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE && map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
      if (opens) result = pools::open_to(pool, map[i].location.id);
    }
    return result;
  });
}

extern "C" CUresult torpor_hook_cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void* value) {
  return guarded([&] {
    const CUresult result = real::cuMemPoolSetAttribute(pool, attr, value);
    if (result == CUDA_SUCCESS) pools::set(pool, attr, value);
    return result;
  });
}

extern "C" CUresult torpor_hook_cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void* value) {
  return guarded([&] {
    const CUresult result = real::cuMemPoolGetAttribute(pool, attr, value);
    if (result == CUDA_SUCCESS) pools::amend(pool, attr, value);
    return result;
  });
}
