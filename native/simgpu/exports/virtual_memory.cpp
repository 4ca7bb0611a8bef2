// The driver's virtual memory management, one call each.
#include "entry.h"

using namespace sim;

namespace {

VirtualMemory& vmm() { return process().virtual_memory; }

constexpr unsigned long long known_handle_types = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

// The device that the properties name; null for host memory.
Device* home_of(const CUmemAllocationProp& properties) {
  require(properties.type == CU_MEM_ALLOCATION_TYPE_PINNED);
  require((properties.requestedHandleTypes & ~known_handle_types) == 0, CUDA_ERROR_NOT_SUPPORTED);
  switch (properties.location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      return &process().device(properties.location.id);
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
      return nullptr;
    default:
      fail(CUDA_ERROR_INVALID_VALUE);
  }
}

std::pair<int, int> key_of(const CUmemLocation& location) {
  switch (location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      process().device(location.id);
      return {location.type, location.id};
    case CU_MEM_LOCATION_TYPE_HOST:
      return {location.type, 0};
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
      return {location.type, location.id};
    default:
      fail(CUDA_ERROR_INVALID_VALUE);
  }
}

}  // namespace

SIM_API(cuMemGetAllocationGranularity, query,
        (size_t* out, const CUmemAllocationProp* properties, CUmemAllocationGranularity_flags option),
        (out, properties, option)) {
  require(out != nullptr && properties != nullptr);
  require(option == CU_MEM_ALLOC_GRANULARITY_MINIMUM || option == CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
  home_of(*properties);
  *out = granularity;
}

SIM_API(cuMemAddressReserve, change,
        (CUdeviceptr* out, size_t size, size_t alignment, CUdeviceptr hint, unsigned long long flags),
        (out, size, alignment, hint, flags)) {
  require(out != nullptr && flags == 0);
  *out = vmm().reserve(size, alignment, hint);
}

SIM_API(cuMemAddressFree, change, (CUdeviceptr base, size_t size), (base, size)) { vmm().free_reservation(base, size); }

SIM_API(cuMemCreate, change,
        (CUmemGenericAllocationHandle* out, size_t size, const CUmemAllocationProp* properties, unsigned long long flags),
        (out, size, properties, flags)) {
  require(out != nullptr && properties != nullptr && flags == 0 && size != 0 && size % granularity == 0);
  *out = vmm().add(std::make_shared<Block>(home_of(*properties), size, *properties));
}

SIM_API(cuMemRelease, change, (CUmemGenericAllocationHandle handle), (handle)) { vmm().release(handle); }

SIM_API(cuMemRetainAllocationHandle, change, (CUmemGenericAllocationHandle* out, void* address), (out, address)) {
  require(out != nullptr);
  AllocationRef mapping = process().memory.at(reinterpret_cast<uint64_t>(address));
  require(mapping && mapping->kind == Kind::mapped);
  vmm().retain(mapping->block);
  *out = mapping->block->id;
}

SIM_API(cuMemGetAllocationPropertiesFromHandle, query, (CUmemAllocationProp* out, CUmemGenericAllocationHandle handle),
        (out, handle)) {
  require(out != nullptr);
  *out = vmm().find(handle)->properties;
}

SIM_API(cuMemMap, change,
        (CUdeviceptr base, size_t size, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags),
        (base, size, offset, handle, flags)) {
  require(flags == 0);
  vmm().map(process().memory, base, size, offset, vmm().find(handle));
}

// Waits for work that touches the range: the pages must not change under it.
SIM_API(cuMemUnmap, wait, (CUdeviceptr base, size_t size), (base, size)) {
  wait_for_progress([&] {
    Section section;
    if (vmm().reserved(base) && vmm().reserved(base + size - 1) && !process().memory.overlaps(base, size)) return true;
    auto mappings = vmm().mappings(process().memory, base, size);
    for (const AllocationRef& mapping : mappings)
      if (mapping.use_count() > 2) return false;  // more than the map and this list
    vmm().unmap(process().memory, mappings);
    return true;
  });
}

SIM_API(cuMemSetAccess, change, (CUdeviceptr base, size_t size, const CUmemAccessDesc* wanted, size_t count),
        (base, size, wanted, count)) {
  require(wanted != nullptr && count != 0);
  auto mappings = vmm().mappings(process().memory, base, size);
  for (size_t i = 0; i < count; ++i) {
    key_of(wanted[i].location);
    CUmemAccess_flags flags = wanted[i].flags;
    require(flags == CU_MEM_ACCESS_FLAGS_PROT_NONE || flags == CU_MEM_ACCESS_FLAGS_PROT_READ ||
            flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  }
  for (const AllocationRef& mapping : mappings) {
    for (size_t i = 0; i < count; ++i) mapping->access[key_of(wanted[i].location)] = wanted[i].flags;
    vmm().set_access(*mapping);
  }
}

SIM_API(cuMemGetAccess, query, (unsigned long long* out, const CUmemLocation* location, CUdeviceptr address),
        (out, location, address)) {
  require(out != nullptr && location != nullptr);
  AllocationRef mapping = process().memory.at(address);
  require(mapping && mapping->kind == Kind::mapped);
  auto found = mapping->access.find(key_of(*location));
  *out = found == mapping->access.end() ? CU_MEM_ACCESS_FLAGS_PROT_NONE : found->second;
}

SIM_API(cuMemExportToShareableHandle, change,
        (void* out, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type, unsigned long long flags),
        (out, handle, type, flags)) {
  require(out != nullptr && flags == 0);
  require(type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, CUDA_ERROR_NOT_SUPPORTED);
  *static_cast<int*>(out) = vmm().find(handle)->export_descriptor();
}

SIM_API(cuMemImportFromShareableHandle, change,
        (CUmemGenericAllocationHandle* out, void* os_handle, CUmemAllocationHandleType type), (out, os_handle, type)) {
  require(out != nullptr);
  require(type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, CUDA_ERROR_NOT_SUPPORTED);
  int fd = static_cast<int>(reinterpret_cast<intptr_t>(os_handle));
  *out = vmm().add(std::make_shared<Block>(fd, process().devices));
}
