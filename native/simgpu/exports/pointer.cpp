// What is known of an address.
#include <algorithm>

#include "entry.h"

using namespace sim;

namespace {

unsigned memory_type(const Allocation& found) {
  if (found.kind == Kind::host || found.kind == Kind::registered) return CU_MEMORYTYPE_HOST;
  if (found.block && found.device == nullptr) return CU_MEMORYTYPE_HOST;
  return CU_MEMORYTYPE_DEVICE;
}

bool host_reaches(const Allocation& found) { return !found.on_device() || memory_type(found) == CU_MEMORYTYPE_HOST; }

// Writes one attribute of a known address; throws CUDA_ERROR_INVALID_VALUE where the address has none.
void answer(const Allocation& found, CUdeviceptr address, CUpointer_attribute attribute, void* out) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      *static_cast<CUcontext*>(out) = found.context != nullptr ? found.context->handle() : nullptr;
      return;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<unsigned*>(out) = memory_type(found);
      return;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      *static_cast<CUdeviceptr*>(out) = address;
      return;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      require(host_reaches(found));
      *static_cast<void**>(out) = reinterpret_cast<void*>(address);
      return;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      *static_cast<unsigned*>(out) = found.sync_memops;
      return;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      *static_cast<unsigned long long*>(out) = found.buffer_id;
      return;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      *static_cast<unsigned*>(out) = found.kind == Kind::managed;
      return;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(out) = found.device != nullptr ? found.device->ordinal : -1;
      return;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      *static_cast<bool*>(out) = found.kind == Kind::linear;
      return;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      *static_cast<CUdeviceptr*>(out) = found.base;
      return;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      *static_cast<size_t*>(out) = found.size;
      return;
    case CU_POINTER_ATTRIBUTE_MAPPED:
      *static_cast<bool*>(out) = true;
      return;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      *static_cast<uint64_t*>(out) = found.kind == Kind::mapped ? found.block->properties.requestedHandleTypes : 0;
      return;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      *static_cast<bool*>(out) = found.kind == Kind::linear;
      return;
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
      *static_cast<bool*>(out) = false;
      return;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      *static_cast<unsigned*>(out) = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
      return;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      *static_cast<CUmemoryPool*>(out) = found.pool ? found.pool->handle() : nullptr;
      return;
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      *static_cast<size_t*>(out) = found.size;
      return;
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      *static_cast<void**>(out) = reinterpret_cast<void*>(found.base);
      return;
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      *static_cast<unsigned long long*>(out) = found.kind == Kind::mapped ? found.block->id : found.buffer_id;
      return;
    default:
      fail(CUDA_ERROR_INVALID_VALUE);
  }
}

size_t size_of(CUpointer_attribute attribute) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return 4;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
      return 1;
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
      return 16;
    default:
      return 8;
  }
}

}  // namespace

SIM_API(cuPointerGetAttribute, query, (void* out, CUpointer_attribute attribute, CUdeviceptr address),
        (out, attribute, address)) {
  require(out != nullptr);
  AllocationRef found = process().memory.at(address);
  require(found != nullptr);
  answer(*found, address, attribute, out);
}

// Unlike the single call this one succeeds for any address: what has no answer reads as zero.
SIM_API(cuPointerGetAttributes, query,
        (unsigned count, CUpointer_attribute* attributes, void** out, CUdeviceptr address),
        (count, attributes, out, address)) {
  require(attributes != nullptr && out != nullptr && count != 0);
  for (unsigned i = 0; i < count; ++i) require(out[i] != nullptr);
  AllocationRef found = process().memory.at(address);
  for (unsigned i = 0; i < count; ++i) {
    std::fill_n(static_cast<char*>(out[i]), size_of(attributes[i]), char{0});
    if (!found) {
      if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) *static_cast<int*>(out[i]) = -2;
      continue;
    }
    try {
      answer(*found, address, attributes[i], out[i]);
    } catch (const Failure&) {
    }
  }
}

SIM_API(cuPointerSetAttribute, change, (const void* value, CUpointer_attribute attribute, CUdeviceptr address),
        (value, attribute, address)) {
  require(value != nullptr && attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS);
  AllocationRef found = process().memory.at(address);
  require(found && found->on_device());
  found->sync_memops = *static_cast<const unsigned*>(value) != 0;
}
