// Overrides of the questions about pointers, so that arena memory answers as cuMemAlloc memory does.
#include <cstdint>
#include <cstring>

#include "../generated/hooks.h"
#include "../generated/real.h"
#include "../prim/log.h"
#include "arena.h"
#include "guarded.h"

namespace torpor::arena {
namespace {

template <typename T>
bool put(void* out, T value) {
  std::memcpy(out, &value, sizeof value);
  return true;
}

// Writes the attributes whose value and width we know; false for the others.
bool answer(const Allocation& allocation, CUpointer_attribute attribute, void* out) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return put(out, allocation.context);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      return put(out, static_cast<unsigned long long>(allocation.id));
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return put(out, allocation.address);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return put(out, static_cast<std::size_t>(allocation.size));
    default:
      return false;
  }
}

// Corrects what the driver wrote about a block where cuMemAlloc memory would differ. Only the driver knows how wide it
// writes these, and the values fit the lowest byte. (An H200 calls cuMemAlloc memory capable of hardware decompression.)
void amend(CUpointer_attribute attribute, void* out) {
  if (attribute == CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE) put(out, std::uint8_t{1});
  if (attribute == CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE) put(out, std::uint8_t{1});
  if (attribute == CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES) put(out, std::uint8_t{0});
}

}  // namespace
}  // namespace torpor::arena

using torpor::arena::Arena;
using torpor::arena::guarded;
using torpor::arena::kNowhere;
namespace real = torpor::real;

extern "C" CUresult torpor_hook_cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr ptr) {
  return guarded([&] {
    Arena* const arena = Arena::get();
    if (arena == nullptr || data == nullptr) return real::cuPointerGetAttribute(data, attribute, ptr);
    const auto allocation = arena->find(ptr);
    if (!allocation) return real::cuPointerGetAttribute(data, attribute, arena->contains(ptr) ? kNowhere : ptr);
    if (torpor::arena::answer(*allocation, attribute, data)) return CUDA_SUCCESS;
    const CUresult result = real::cuPointerGetAttribute(data, attribute, ptr);
    if (result == CUDA_SUCCESS) torpor::arena::amend(attribute, data);
    return result;
  });
}

extern "C" CUresult torpor_hook_cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute* attributes,
                                                       void** data, CUdeviceptr ptr) {
  return guarded([&] {
    Arena* const arena = Arena::get();
    if (arena == nullptr) return real::cuPointerGetAttributes(numAttributes, attributes, data, ptr);
    const auto allocation = arena->find(ptr);
    const CUdeviceptr asked = !allocation && arena->contains(ptr) ? kNowhere : ptr;
    const CUresult result = real::cuPointerGetAttributes(numAttributes, attributes, data, asked);
    if (!allocation || result != CUDA_SUCCESS) return result;
    for (unsigned int i = 0; i < numAttributes; ++i) {
      if (data[i] == nullptr || torpor::arena::answer(*allocation, attributes[i], data[i])) continue;
      torpor::arena::amend(attributes[i], data[i]);
    }
    return result;
  });
}

// The handle would be to our memory, and would keep it alive behind a checkpoint's back.
extern "C" CUresult torpor_hook_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* addr) {
  return guarded([&] {
    Arena* const arena = Arena::get();
    const auto address = reinterpret_cast<CUdeviceptr>(addr);
    if (arena != nullptr && arena->contains(address)) return CUDA_ERROR_INVALID_VALUE;
    return real::cuMemRetainAllocationHandle(handle, addr);
  });
}

extern "C" CUresult torpor_hook_cuIpcGetMemHandle(CUipcMemHandle* pHandle, CUdeviceptr dptr) {
  return guarded([&] {
    Arena* const arena = Arena::get();
    if (arena == nullptr || !arena->contains(dptr)) return real::cuIpcGetMemHandle(pHandle, dptr);
    torpor::log::error("cuIpcGetMemHandle: device memory in Torpor's arena cannot be shared this way yet; start the job "
                       "with --no-arena");
    return CUDA_ERROR_NOT_SUPPORTED;
  });
}
