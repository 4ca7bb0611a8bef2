// Overrides of the questions about pointers, so that arena memory answers as cuMemAlloc memory does.
#include <cstdint>
#include <cstring>

#include "../generated/hooks.h"
#include "../generated/real.h"
#include "../managed/host_backed.h"
#include "../pinned/owned.h"
#include "arena.h"
#include "guarded.h"
#include "program_memory.h"

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
      return put(out, allocation.pool == nullptr ? allocation.context : nullptr);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return put(out, allocation.pool);
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
void amend(const Allocation& allocation, CUpointer_attribute attribute, void* out) {
  const std::uint8_t unless_pooled = allocation.pool == nullptr ? 1 : 0;
  if (attribute == CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE) put(out, unless_pooled);
  if (attribute == CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE && unless_pooled == 0) put(out, unless_pooled);
  if (attribute == CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE) put(out, std::uint8_t{1});
  if (attribute == CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES) put(out, std::uint8_t{0});
}

// Host-backed managed memory: the driver knows pinned memory of the host.
void amend_managed(const managed::Allocation& allocation, CUpointer_attribute attribute, void* out) {
  if (attribute == CU_POINTER_ATTRIBUTE_IS_MANAGED) put(out, std::uint8_t{1});
  if (attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE) put(out, static_cast<unsigned int>(CU_MEMORYTYPE_DEVICE));
  if (attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR) put(out, allocation.address);
  if (attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE) put(out, static_cast<std::size_t>(allocation.size));
}

// Pinned host memory in a file: the driver's own has mappings of whole huge pages.
void amend_pinned(CUpointer_attribute attribute, void* out, CUdeviceptr address) {
  if (attribute != CU_POINTER_ATTRIBUTE_MAPPING_SIZE) return;
  constexpr std::size_t kHugePage = 2ULL << 20;
  if (const auto ours = pinned::holding(address)) put(out, (ours->size + kHugePage - 1) / kHugePage * kHugePage);
}

// The program's own memory is exportable even where it was not asked for.
void amend_own(CUpointer_attribute attribute, void* out, CUdeviceptr address) {
  amend_pinned(attribute, out, address);
  if (attribute != CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES) return;
  if (const auto memory = ProgramMemory::get()->at(address)) {
    put(out, static_cast<std::uint8_t>(memory->properties.requestedHandleTypes));
  }
}

}  // namespace
}  // namespace torpor::arena

using torpor::arena::Arena;
using torpor::arena::guarded;
using torpor::arena::kNowhere;
namespace real = torpor::real;

extern "C" CUresult torpor_hook_cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr ptr) {
  return guarded([&] {
    if (const auto host_backed = torpor::managed::find(ptr)) {
      const CUresult result = real::cuPointerGetAttribute(data, attribute, ptr);
      if (result == CUDA_SUCCESS) torpor::arena::amend_managed(*host_backed, attribute, data);
      return result;
    }
    Arena* const arena = Arena::get();
    if (arena == nullptr || data == nullptr) return real::cuPointerGetAttribute(data, attribute, ptr);
    const auto allocation = arena->find(ptr);
    if (!allocation) {
      const CUresult result = real::cuPointerGetAttribute(data, attribute, arena->contains(ptr) ? kNowhere : ptr);
      if (result == CUDA_SUCCESS) torpor::arena::amend_own(attribute, data, ptr);
      return result;
    }
    if (torpor::arena::answer(*allocation, attribute, data)) return CUDA_SUCCESS;
    const CUresult result = real::cuPointerGetAttribute(data, attribute, ptr);
    if (result == CUDA_SUCCESS) torpor::arena::amend(*allocation, attribute, data);
    return result;
  });
}

extern "C" CUresult torpor_hook_cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute* attributes,
                                                       void** data, CUdeviceptr ptr) {
  return guarded([&] {
    if (const auto host_backed = torpor::managed::find(ptr)) {
      const CUresult result = real::cuPointerGetAttributes(numAttributes, attributes, data, ptr);
      for (unsigned int i = 0; result == CUDA_SUCCESS && i < numAttributes; ++i) {
        torpor::arena::amend_managed(*host_backed, attributes[i], data[i]);
      }
      return result;
    }
    Arena* const arena = Arena::get();
    if (arena == nullptr) return real::cuPointerGetAttributes(numAttributes, attributes, data, ptr);
    const auto allocation = arena->find(ptr);
    const CUdeviceptr asked = !allocation && arena->contains(ptr) ? kNowhere : ptr;
    const CUresult result = real::cuPointerGetAttributes(numAttributes, attributes, data, asked);
    if (result != CUDA_SUCCESS) return result;
    for (unsigned int i = 0; i < numAttributes; ++i) {
      if (data[i] == nullptr) continue;
      if (!allocation) {
        torpor::arena::amend_own(attributes[i], data[i], ptr);
      } else if (!torpor::arena::answer(*allocation, attributes[i], data[i])) {
        torpor::arena::amend(*allocation, attributes[i], data[i]);
      }
    }
    return result;
  });
}
