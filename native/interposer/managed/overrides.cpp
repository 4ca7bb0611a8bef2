// The calls about managed memory, answered for memory that is host-backed. All others are the driver's.
#include <algorithm>
#include <cstring>

#include "../arena/guarded.h"
#include "../generated/hooks.h"
#include "../generated/real.h"
#include "../hooks/residual_key.h"
#include "host_backed.h"

namespace torpor::managed {
namespace {

CUmemLocation located(CUdevice device) {
  CUmemLocation out{};
  out.type = device == CU_DEVICE_CPU ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE;
  out.id = device == CU_DEVICE_CPU ? 0 : device;
  return out;
}

int number_of(const CUmemLocation& location) {
  if (location.type == CU_MEM_LOCATION_TYPE_INVALID) return CU_DEVICE_INVALID;
  return location.type == CU_MEM_LOCATION_TYPE_DEVICE ? location.id : CU_DEVICE_CPU;
}

bool exists(const CUmemLocation& location) {
  int count = 0;
  if (location.type != CU_MEM_LOCATION_TYPE_DEVICE) return location.type != CU_MEM_LOCATION_TYPE_INVALID;
  return real::cuDeviceGetCount(&count) == CUDA_SUCCESS && location.id >= 0 && location.id < count;
}

CUresult advise_on(const Allocation& allocation, CUmem_advise what, const CUmemLocation& location) {
  Advice advice = allocation.advice;
  const int number = number_of(location);
  const bool needs_place = what == CU_MEM_ADVISE_SET_PREFERRED_LOCATION || what == CU_MEM_ADVISE_SET_ACCESSED_BY ||
                           what == CU_MEM_ADVISE_UNSET_ACCESSED_BY;
  if (needs_place && !exists(location)) return CUDA_ERROR_INVALID_DEVICE;
  switch (what) {
    case CU_MEM_ADVISE_SET_READ_MOSTLY:
    case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
      advice.read_mostly = what == CU_MEM_ADVISE_SET_READ_MOSTLY;
      break;
    case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
      advice.preferred = location;
      break;
    case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
      advice.preferred = {};
      break;
    case CU_MEM_ADVISE_SET_ACCESSED_BY:
      if (std::find(advice.accessed_by.begin(), advice.accessed_by.end(), number) == advice.accessed_by.end()) {
        advice.accessed_by.push_back(number);
      }
      break;
    case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
      std::erase(advice.accessed_by, number);
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  advise(allocation, advice);
  return CUDA_SUCCESS;
}

CUresult prefetch(const Allocation& allocation, const CUmemLocation& location) {
  if (!exists(location)) return CUDA_ERROR_INVALID_DEVICE;
  Advice advice = allocation.advice;
  advice.last_prefetch = location;
  advise(allocation, advice);
  return CUDA_SUCCESS;
}

CUresult answer(const Advice& advice, CUmem_range_attribute attribute, void* data, size_t size) {
  const auto put = [&](int value) {
    if (size < sizeof value) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(data, &value, sizeof value);
    return CUDA_SUCCESS;
  };
  switch (attribute) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
      return put(advice.read_mostly ? 1 : 0);
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
      return put(number_of(advice.preferred));
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
      return put(number_of(advice.last_prefetch));
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
      return put(advice.preferred.type);
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
      return put(advice.preferred.id);
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
      return put(advice.last_prefetch.type);
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
      return put(advice.last_prefetch.id);
    case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY: {
      if (size == 0 || size % sizeof(int) != 0) return CUDA_ERROR_INVALID_VALUE;
      for (size_t i = 0; i < size / sizeof(int); ++i) {
        const int each = i < advice.accessed_by.size() ? advice.accessed_by[i] : CU_DEVICE_INVALID;
        std::memcpy(static_cast<char*>(data) + i * sizeof each, &each, sizeof each);
      }
      return CUDA_SUCCESS;
    }
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

// A batch of ranges is ours when all are; then there is nothing to move, and nothing that may be discarded must be.
template <typename Driver>
CUresult batch(const CUdeviceptr* addresses, const size_t* sizes, size_t count, Driver driver) {
  if (!wanted() || addresses == nullptr || sizes == nullptr || count == 0) return driver();
  for (size_t i = 0; i < count; ++i) {
    if (!holding(addresses[i], sizes[i])) return driver();
  }
  return CUDA_SUCCESS;
}

template <typename Ours, typename Driver>
CUresult either(CUdeviceptr address, size_t size, Ours ours, Driver driver) {
  const auto allocation = size == 0 ? std::nullopt : holding(address, size);
  return allocation ? ours(*allocation) : driver();
}

}  // namespace
}  // namespace torpor::managed

using torpor::arena::guarded;
namespace managed = torpor::managed;
namespace real = torpor::real;
namespace residual = torpor::residual;

extern "C" CUresult torpor_hook_cuMemAllocManaged(CUdeviceptr* dptr, size_t bytesize, unsigned int flags) {
  return guarded([&] {
    const bool plain = dptr != nullptr && bytesize != 0 && (flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST);
    if (plain && managed::wanted()) return managed::allocate(bytesize, *dptr);
    return residual::noted(real::cuMemAllocManaged(dptr, bytesize, flags), residual::Kind::managed, dptr);
  });
}

extern "C" CUresult torpor_hook_cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device) {
  return guarded([&] {
    return managed::either(
        devPtr, count, [&](const auto& ours) { return managed::advise_on(ours, advice, managed::located(device)); },
        [&] { return real::cuMemAdvise(devPtr, count, advice, device); });
  });
}

extern "C" CUresult torpor_hook_cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice,
                                               CUmemLocation location) {
  return guarded([&] {
    return managed::either(
        devPtr, count, [&](const auto& ours) { return managed::advise_on(ours, advice, location); },
        [&] { return real::cuMemAdvise_v2(devPtr, count, advice, location); });
  });
}

#define TORPOR_PREFETCH(name)                                                                                        \
  extern "C" CUresult torpor_hook_##name(CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream) {   \
    return guarded([&] {                                                                                             \
      return managed::either(                                                                                        \
          devPtr, count, [&](const auto& ours) { return managed::prefetch(ours, managed::located(dstDevice)); },     \
          [&] { return real::name(devPtr, count, dstDevice, hStream); });                                            \
    });                                                                                                              \
  }

#define TORPOR_PREFETCH_TO(name)                                                                                     \
  extern "C" CUresult torpor_hook_##name(CUdeviceptr devPtr, size_t count, CUmemLocation location,                   \
                                         unsigned int flags, CUstream hStream) {                                     \
    return guarded([&] {                                                                                             \
      return managed::either(                                                                                        \
          devPtr, count, [&](const auto& ours) { return managed::prefetch(ours, location); },                        \
          [&] { return real::name(devPtr, count, location, flags, hStream); });                                      \
    });                                                                                                              \
  }

#define TORPOR_PREFETCH_BATCH(name)                                                                                  \
  extern "C" CUresult torpor_hook_##name(CUdeviceptr* dptrs, size_t* sizes, size_t count, CUmemLocation* prefetchLocs, \
                                         size_t* prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags,  \
                                         CUstream hStream) {                                                         \
    return guarded([&] {                                                                                             \
      return managed::batch(dptrs, sizes, count, [&] {                                                               \
        return real::name(dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs, flags, hStream);      \
      });                                                                                                            \
    });                                                                                                              \
  }

#define TORPOR_DISCARD(name)                                                                                         \
  extern "C" CUresult torpor_hook_##name(CUdeviceptr* dptrs, size_t* sizes, size_t count, unsigned long long flags,  \
                                         CUstream hStream) {                                                         \
    return guarded([&] {                                                                                             \
      return managed::batch(dptrs, sizes, count, [&] { return real::name(dptrs, sizes, count, flags, hStream); });   \
    });                                                                                                              \
  }

#define TORPOR_ATTACH(name)                                                                                          \
  extern "C" CUresult torpor_hook_##name(CUstream hStream, CUdeviceptr dptr, size_t length, unsigned int flags) {    \
    return guarded([&] {                                                                                             \
      return managed::either(                                                                                        \
          dptr, length == 0 ? 1 : length, [](const auto&) { return CUDA_SUCCESS; },                                  \
          [&] { return real::name(hStream, dptr, length, flags); });                                                 \
    });                                                                                                              \
  }

TORPOR_PREFETCH(cuMemPrefetchAsync)
TORPOR_PREFETCH(cuMemPrefetchAsync_ptsz)
TORPOR_PREFETCH_TO(cuMemPrefetchAsync_v2)
TORPOR_PREFETCH_TO(cuMemPrefetchAsync_v2_ptsz)
TORPOR_PREFETCH_BATCH(cuMemPrefetchBatchAsync)
TORPOR_PREFETCH_BATCH(cuMemPrefetchBatchAsync_ptsz)
TORPOR_PREFETCH_BATCH(cuMemDiscardAndPrefetchBatchAsync)
TORPOR_PREFETCH_BATCH(cuMemDiscardAndPrefetchBatchAsync_ptsz)
TORPOR_DISCARD(cuMemDiscardBatchAsync)
TORPOR_DISCARD(cuMemDiscardBatchAsync_ptsz)
TORPOR_ATTACH(cuStreamAttachMemAsync)
TORPOR_ATTACH(cuStreamAttachMemAsync_ptsz)

extern "C" CUresult torpor_hook_cuMemRangeGetAttribute(void* data, size_t dataSize, CUmem_range_attribute attribute,
                                                       CUdeviceptr devPtr, size_t count) {
  return guarded([&] {
    return managed::either(
        data == nullptr ? 0 : devPtr, count,
        [&](const auto& ours) { return managed::answer(ours.advice, attribute, data, dataSize); },
        [&] { return real::cuMemRangeGetAttribute(data, dataSize, attribute, devPtr, count); });
  });
}

extern "C" CUresult torpor_hook_cuMemRangeGetAttributes(void** data, size_t* dataSizes,
                                                        CUmem_range_attribute* attributes, size_t numAttributes,
                                                        CUdeviceptr devPtr, size_t count) {
  return guarded([&] {
    const bool plain = data != nullptr && dataSizes != nullptr && attributes != nullptr && numAttributes != 0;
    return managed::either(
        plain ? devPtr : 0, count,
        [&](const auto& ours) {
          for (size_t i = 0; i < numAttributes; ++i) {
            const CUresult result = managed::answer(ours.advice, attributes[i], data[i], dataSizes[i]);
            if (result != CUDA_SUCCESS) return result;
          }
          return CUDA_SUCCESS;
        },
        [&] { return real::cuMemRangeGetAttributes(data, dataSizes, attributes, numAttributes, devPtr, count); });
  });
}
