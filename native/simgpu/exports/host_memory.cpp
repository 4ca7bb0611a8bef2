// Host memory that devices reach: pinned, registered, managed.
#include <unistd.h>

#include "capture.h"
#include "entry.h"
#include "linear.h"

using namespace sim;

namespace {

constexpr unsigned alloc_flags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
constexpr unsigned register_flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                                    CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;

uint64_t address_of(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

void* allocate(size_t size, unsigned flags) {
  require((flags & ~alloc_flags) == 0);
  forbid_unsafe();
  if (size == 0) return nullptr;
  AllocationRef made = make_reachable(process(), Kind::host, *current_context(), size, flags);
  return reinterpret_cast<void*>(made->base);
}

AllocationRef pinned_at(const void* pointer) {
  AllocationRef found = process().memory.at(address_of(pointer));
  require(found && (found->kind == Kind::host || found->kind == Kind::registered));
  return found;
}

void enrol(void* pointer, size_t size, unsigned flags) {
  require(pointer != nullptr && size != 0 && (flags & ~register_flags) == 0);
  std::shared_ptr<Context> context = current_context();
  const AllocationRef there = process().memory.at(address_of(pointer));
  require(!there || there->kind != Kind::host);
  require(!process().memory.overlaps(address_of(pointer), size), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  auto allocation = std::make_shared<Allocation>(Kind::registered);
  allocation->base = address_of(pointer);
  allocation->size = size;
  allocation->device = &context->device;
  allocation->context = context.get();
  allocation->buffer_id = next_buffer_id();
  allocation->flags = flags;
  process().memory.add(std::move(allocation));
}

// Waits for what may still use the range, then takes it out of the map.
void withdraw(const void* pointer, Kind kind, CUresult unknown) {
  auto find = [&] {
    AllocationRef found = process().memory.starting_at(address_of(pointer));
    require(!found || found->kind == kind);
    require(static_cast<bool>(found), unknown);
    return found;
  };
  std::vector<Ticket> tickets;
  {
    Section section;
    current_context();
    tickets = find()->context->everything();
  }
  wait_all(tickets);
  Section section;
  find();
  process().memory.remove(address_of(pointer));
}

}  // namespace

SIM_API(cuMemHostAlloc, change, (void** out, size_t size, unsigned flags), (out, size, flags)) {
  require(out != nullptr);
  *out = allocate(size, flags);
}

SIM_API(cuMemAllocHost_v2, change, (void** out, size_t size), (out, size)) {
  require(out != nullptr);
  *out = allocate(size, 0);
}

SIM_API(cuMemFreeHost, wait, (void* pointer), (pointer)) {
  if (pointer != nullptr) withdraw(pointer, Kind::host, CUDA_ERROR_INVALID_VALUE);
}

SIM_API(cuMemHostRegister_v2, change, (void* pointer, size_t size, unsigned flags), (pointer, size, flags)) {
  enrol(pointer, size, flags);
}

SIM_API(cuMemHostRegister, change, (void* pointer, size_t size, unsigned flags), (pointer, size, flags)) {
  enrol(pointer, size, flags);
}

SIM_API(cuMemHostUnregister, wait, (void* pointer), (pointer)) {
  require(pointer != nullptr);
  withdraw(pointer, Kind::registered, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

SIM_API(cuMemHostGetDevicePointer_v2, query, (CUdeviceptr* out, void* pointer, unsigned flags), (out, pointer, flags)) {
  require(out != nullptr && flags == 0);
  current_context();
  pinned_at(pointer);
  *out = address_of(pointer);
}

SIM_API(cuMemHostGetFlags, query, (unsigned* out, void* pointer), (out, pointer)) {
  require(out != nullptr);
  current_context();
  const AllocationRef found = pinned_at(pointer);
  *out = found->flags | (found->kind == Kind::host ? CU_MEMHOSTALLOC_DEVICEMAP : 0U);
}

SIM_API(cuMemAllocManaged, change, (CUdeviceptr* out, size_t size, unsigned flags), (out, size, flags)) {
  require(out != nullptr && size != 0);
  require(flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST);
  *out = make_reachable(process(), Kind::managed, *current_context(), size, flags)->base;
}
