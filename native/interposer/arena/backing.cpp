#include "backing.h"

#include <cstdint>
#include <optional>

#include "../generated/real.h"
#include "contexts.h"
#include "device_memory.h"
#include "peers.h"

namespace torpor::arena {
namespace {

// Program memory may exist before any context does; then one is made for the time of the copy.
CUresult copy(int device, CUdeviceptr to, CUdeviceptr from, std::uint64_t size) {
  std::optional<contexts::Held> held;
  CUcontext context = nullptr;
  if (const auto known = contexts::on_device(device)) {
    context = known->handle;
  } else {
    const CUresult result = real::cuDevicePrimaryCtxRetain(&context, device);
    if (result != CUDA_SUCCESS) return result;
    held.emplace(context, device, true);
  }
  const contexts::Pushed pushed(context);
  if (pushed.status != CUDA_SUCCESS) return pushed.status;
  const CUresult result = real::cuMemcpyDtoD_v2(to, from, size);
  return result != CUDA_SUCCESS ? result : real::cuCtxSynchronize();
}

// Copies between two handles through two halves of one range of addresses.
CUresult copy_aside(int device, CUdeviceptr aside, CUmemGenericAllocationHandle to, CUmemGenericAllocationHandle from,
                    std::uint64_t size) {
  const CUmemAccessDesc access = access_for(device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  CUresult result = map(aside, size, to, {&access, 1});
  if (result != CUDA_SUCCESS) return result;
  result = map(aside + size, size, from, {&access, 1});
  if (result == CUDA_SUCCESS) {
    result = copy(device, aside, aside + size, size);
    real::cuMemUnmap(aside + size, size);
  }
  real::cuMemUnmap(aside, size);
  return result;
}

}  // namespace

CUresult export_backing(Backing& backing, Descriptor& out) {
  out = backing.kept.duplicate();
  if (out) return CUDA_SUCCESS;
  if (backing.imported || !backing.shareable()) return CUDA_ERROR_NOT_SUPPORTED;
  int fd = -1;
  const CUresult result =
      real::cuMemExportToShareableHandle(&fd, backing.handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  if (result == CUDA_SUCCESS) out.reset(fd);
  return result;
}

CUresult replace_by_copy(Backing& backing, DeviceMemory& memory,
                         const std::function<CUresult(CUmemGenericAllocationHandle)>& remap) {
  const auto aside = memory.take_address(2 * backing.size);
  if (!aside) return CUDA_ERROR_OUT_OF_MEMORY;
  CUmemGenericAllocationHandle fresh = 0;
  CUresult result = memory.create(backing.size, fresh);
  if (result == CUDA_SUCCESS) {
    result = copy_aside(backing.device, *aside, fresh, backing.handle, backing.size);
    if (result == CUDA_SUCCESS) result = remap(fresh);
    real::cuMemRelease(result == CUDA_SUCCESS ? backing.handle : fresh);
  }
  memory.give_address(*aside, 2 * backing.size);
  if (result != CUDA_SUCCESS) return result;
  backing.handle = fresh;
  backing.imported = false;
  return CUDA_SUCCESS;
}

CUresult import_backing(Backing& backing, const Descriptor& descriptor,
                        const std::function<CUresult(CUmemGenericAllocationHandle)>& map_all) {
  CUmemGenericAllocationHandle handle = 0;
  void* const os_handle = reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor.get()));
  CUresult result =
      real::cuMemImportFromShareableHandle(&handle, os_handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  if (result != CUDA_SUCCESS) return result;
  result = map_all(handle);
  if (result != CUDA_SUCCESS) {
    real::cuMemRelease(handle);
    return result;
  }
  backing.handle = handle;
  backing.imported = true;
  backing.away = false;
  backing.exported = false;
  backing.kept.keep(descriptor.get(), backing.size, backing.shared);
  return CUDA_SUCCESS;
}

void release_backing(Backing& backing) {
  real::cuMemRelease(backing.handle);
  backing.handle = 0;
  backing.away = true;
  backing.imported = false;
  backing.kept.reset();
}

}  // namespace torpor::arena
