// Overrides of the calls with which a program makes and maps memory itself. Handles that are not ours are the driver's.
#include <vector>

#include "../generated/hooks.h"
#include "../generated/real.h"
#include "../hooks/mapped_memory.h"
#include "../hooks/residual.h"
#include "arena.h"
#include "guarded.h"
#include "program_calls.h"

namespace torpor::arena {
namespace {

// Part of a sparse array: only the driver knows where, so the memory stays with it. What came from outside it cannot save.
CUmemGenericAllocationHandle pinned(CUmemGenericAllocationHandle handle) {
  ProgramMemory* const program = ProgramMemory::get();
  const auto memory = program != nullptr && ProgramMemory::is_ours(handle) ? program->find(handle) : nullptr;
  if (!memory) return handle;
  memory->pinned = true;
  if (memory->imported) residual::add(residual::Kind::vmm_imported, memory->handle);
  return memory->handle;
}

template <typename Call>
CUresult map_arrays(CUarrayMapInfo* list, unsigned int count, CUstream stream, Call call) {
  if (list == nullptr) return call(list, count, stream);
  std::vector<CUarrayMapInfo> translated(list, list + count);
  for (CUarrayMapInfo& one : translated) one.memHandle.memHandle = pinned(one.memHandle.memHandle);
  return call(translated.data(), count, stream);
}

// The program's memory behind a handle of ours; null for the driver's handles.
ProgramMemory::Shared ours(CUmemGenericAllocationHandle handle) {
  ProgramMemory* const program = ProgramMemory::is_ours(handle) ? ProgramMemory::get() : nullptr;
  return program == nullptr ? nullptr : program->find(handle);
}

}  // namespace
}  // namespace torpor::arena

using torpor::arena::guarded;
using torpor::arena::ours;
using torpor::arena::ProgramMemory;
namespace arena_ = torpor::arena;
namespace real = torpor::real;
namespace residual = torpor::residual;

extern "C" CUresult torpor_hook_cuMemCreate(CUmemGenericAllocationHandle* handle, size_t size,
                                            const CUmemAllocationProp* prop, unsigned long long flags) {
  return guarded([&] {
    if (handle != nullptr && prop != nullptr && flags == 0 && ProgramMemory::get() != nullptr) {
      if (const auto result = arena_::create_memory(size, *prop, *handle)) return *result;
    }
    return real::cuMemCreate(handle, size, prop, flags);
  });
}

extern "C" CUresult torpor_hook_cuMemRelease(CUmemGenericAllocationHandle handle) {
  return guarded([&] {
    if (!ours(handle)) return residual::release_handle(handle);
    return ProgramMemory::get()->release(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

extern "C" CUresult torpor_hook_cuMemMap(CUdeviceptr ptr, size_t size, size_t offset,
                                         CUmemGenericAllocationHandle handle, unsigned long long flags) {
  return guarded([&] {
    const ProgramMemory::Shared memory = ours(handle);
    if (!memory) return residual::map_handle(ptr, size, offset, handle, flags);
    const CUresult result = real::cuMemMap(ptr, size, offset, memory->handle, flags);
    if (result == CUDA_SUCCESS) ProgramMemory::get()->mapped(ptr, size, offset, memory);
    return result;
  });
}

extern "C" CUresult torpor_hook_cuMemUnmap(CUdeviceptr ptr, size_t size) {
  return guarded([&] {
    const CUresult result = residual::unmap(ptr, size);
    ProgramMemory* const program = ProgramMemory::get();
    if (result == CUDA_SUCCESS && program != nullptr) program->unmapped(ptr, size);
    return result;
  });
}

extern "C" CUresult torpor_hook_cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc* desc,
                                               size_t count) {
  return guarded([&] {
    const CUresult result = real::cuMemSetAccess(ptr, size, desc, count);
    ProgramMemory* const program = ProgramMemory::get();
    if (result == CUDA_SUCCESS && program != nullptr) program->accessed(ptr, size, desc, count);
    return result;
  });
}

extern "C" CUresult torpor_hook_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* addr) {
  return guarded([&] {
    const auto address = reinterpret_cast<CUdeviceptr>(addr);
    arena_::Arena* const arena = arena_::Arena::get();
    // Of what cuMemAlloc gave, a handle would be to our memory, and would keep it alive behind a checkpoint's back.
    if (arena != nullptr && arena->contains(address)) return CUDA_ERROR_INVALID_VALUE;
    const auto memory = arena == nullptr || handle == nullptr ? nullptr : ProgramMemory::get()->at(address);
    if (!memory) return real::cuMemRetainAllocationHandle(handle, addr);
    ProgramMemory::get()->retain(memory);
    *handle = memory->id;
    return CUDA_SUCCESS;
  });
}

extern "C" CUresult torpor_hook_cuMemExportToShareableHandle(void* shareableHandle, CUmemGenericAllocationHandle handle,
                                                             CUmemAllocationHandleType handleType,
                                                             unsigned long long flags) {
  return guarded([&] {
    const ProgramMemory::Shared memory = ours(handle);
    const bool plain = handleType == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR && shareableHandle != nullptr && flags == 0;
    if (memory && plain) return arena_::export_memory(memory, *static_cast<int*>(shareableHandle));
    return real::cuMemExportToShareableHandle(shareableHandle, memory ? memory->handle : handle, handleType, flags);
  });
}

extern "C" CUresult torpor_hook_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* osHandle,
                                                               CUmemAllocationHandleType shHandleType) {
  return guarded([&] {
    const bool plain = shHandleType == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR && handle != nullptr;
    if (plain && ProgramMemory::get() != nullptr) {
      const auto fd = static_cast<int>(reinterpret_cast<std::intptr_t>(osHandle));
      if (const auto result = arena_::import_memory(fd, *handle)) return *result;
    }
    return residual::import_handle(handle, osHandle, shHandleType);
  });
}

extern "C" CUresult torpor_hook_cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* prop,
                                                                       CUmemGenericAllocationHandle handle) {
  return guarded([&] {
    const ProgramMemory::Shared memory = prop == nullptr ? nullptr : ours(handle);
    if (!memory) return real::cuMemGetAllocationPropertiesFromHandle(prop, handle);
    *prop = memory->properties;
    return CUDA_SUCCESS;
  });
}

extern "C" CUresult torpor_hook_cuMemMapArrayAsync(CUarrayMapInfo* mapInfoList, unsigned int count, CUstream hStream) {
  return guarded([&] { return arena_::map_arrays(mapInfoList, count, hStream, real::cuMemMapArrayAsync); });
}

extern "C" CUresult torpor_hook_cuMemMapArrayAsync_ptsz(CUarrayMapInfo* mapInfoList, unsigned int count,
                                                        CUstream hStream) {
  return guarded([&] { return arena_::map_arrays(mapInfoList, count, hStream, real::cuMemMapArrayAsync_ptsz); });
}

extern "C" CUresult torpor_hook_cuMulticastBindMem(CUmemGenericAllocationHandle mcHandle, size_t mcOffset,
                                                   CUmemGenericAllocationHandle memHandle, size_t memOffset,
                                                   size_t size, unsigned long long flags) {
  return guarded([&] {
    const ProgramMemory::Shared memory = ours(memHandle);
    return real::cuMulticastBindMem(mcHandle, mcOffset, memory ? memory->handle : memHandle, memOffset, size, flags);
  });
}
