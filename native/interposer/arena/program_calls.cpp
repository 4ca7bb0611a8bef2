#include "program_calls.h"

#include <fcntl.h>

#include "../generated/real.h"
#include "../prim/fork_hold.h"
#include "arena.h"

namespace torpor::arena {
namespace {

constexpr auto kDescriptor = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

bool movable(const CUmemAllocationProp& wanted) {
  return wanted.type == CU_MEM_ALLOCATION_TYPE_PINNED && wanted.location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
         (static_cast<unsigned>(wanted.requestedHandleTypes) & ~static_cast<unsigned>(kDescriptor)) == 0;
}

// The driver does not tell how large imported memory is, but it maps all of it or nothing. So every size is offered in turn;
// a refusal takes 3 us (driver 580). 0 when none is taken.
std::uint64_t size_of(CUmemGenericAllocationHandle handle, int device, DeviceMemory& memory) {
  std::size_t total = 0;
  if (real::cuDeviceTotalMem_v2(&total, device) != CUDA_SUCCESS) return 0;
  const std::uint64_t grain = memory.granularity();
  for (std::uint64_t size = grain; size <= total; size += grain) {
    const auto address = memory.take_address(size);
    if (!address) return 0;
    const bool fits = real::cuMemMap(*address, size, 0, handle, 0) == CUDA_SUCCESS;
    if (fits) real::cuMemUnmap(*address, size);
    memory.give_address(*address, size);
    if (fits) return size;
  }
  return 0;
}

}  // namespace

std::optional<CUresult> create_memory(std::uint64_t size, const CUmemAllocationProp& wanted,
                                      CUmemGenericAllocationHandle& out) {
  if (!movable(wanted)) return std::nullopt;
  DeviceMemory* const memory = Arena::get()->device(wanted.location.id);
  if (memory == nullptr || !memory->usable()) return std::nullopt;
  CUmemAllocationProp exportable = wanted;
  exportable.requestedHandleTypes = kDescriptor;
  auto made = std::make_shared<ProgramMemory::Memory>();
  const CUresult result = real::cuMemCreate(&made->handle, size, &exportable, 0);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) return result;
  if (result != CUDA_SUCCESS) return std::nullopt;  // the driver says itself what is wrong with what was asked for
  made->size = size;
  made->device = wanted.location.id;
  if (real::cuMemGetAllocationPropertiesFromHandle(&made->properties, made->handle) != CUDA_SUCCESS) {
    made->properties = wanted;
  }
  made->properties.requestedHandleTypes = wanted.requestedHandleTypes;
  out = ProgramMemory::get()->add(std::move(made));
  return CUDA_SUCCESS;
}

CUresult export_memory(const ProgramMemory::Shared& memory, int& out) {
  if (memory->foreign || memory->properties.requestedHandleTypes != kDescriptor) return CUDA_ERROR_INVALID_VALUE;
  const ForkHold hold;
  if (Descriptor again = memory->kept.duplicate(true)) {
    if (!memory->close_on_exec) ::fcntl(again.get(), F_SETFD, 0);
    memory->shared = true;
    out = again.release();
    return CUDA_SUCCESS;
  }
  if (memory->imported) return CUDA_ERROR_OPERATING_SYSTEM;
  const CUresult result = real::cuMemExportToShareableHandle(&out, memory->handle, kDescriptor, 0);
  if (result != CUDA_SUCCESS) return result;
  memory->shared = true;
  memory->close_on_exec = (::fcntl(out, F_GETFD) & FD_CLOEXEC) != 0;
  memory->kept.keep(out, memory->size, true);
  return CUDA_SUCCESS;
}

std::optional<CUresult> import_memory(int fd, CUmemGenericAllocationHandle& out) {
  if (!is_ours(fd)) return std::nullopt;
  auto made = std::make_shared<ProgramMemory::Memory>();
  void* const os_handle = reinterpret_cast<void*>(static_cast<std::intptr_t>(fd));
  const CUresult result = real::cuMemImportFromShareableHandle(&made->handle, os_handle, kDescriptor);
  if (result != CUDA_SUCCESS) return result;
  if (real::cuMemGetAllocationPropertiesFromHandle(&made->properties, made->handle) == CUDA_SUCCESS &&
      made->properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
    made->device = made->properties.location.id;
    DeviceMemory* const memory = Arena::get()->device(made->device);
    if (memory != nullptr && memory->usable()) made->size = size_of(made->handle, made->device, *memory);
  }
  if (made->size == 0) {
    real::cuMemRelease(made->handle);
    return std::nullopt;
  }
  made->imported = made->foreign = made->shared = true;
  {
    const ForkHold hold;
    made->kept.keep(fd, made->size, true);
  }
  out = ProgramMemory::get()->add(std::move(made));
  return CUDA_SUCCESS;
}

}  // namespace torpor::arena
