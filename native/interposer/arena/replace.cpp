#include "replace.h"

#include "../generated/real.h"
#include "contexts.h"

namespace torpor::arena {
namespace {

// A block has an owner or is part of a slab that has one, so its device has a context; it only has to be found.
CUresult copy(CUdeviceptr to, const Block& from) {
  const auto context = contexts::on_device(from.device);
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  const contexts::Pushed pushed(context->handle);
  if (pushed.status != CUDA_SUCCESS) return pushed.status;
  const CUresult result = real::cuMemcpyDtoD_v2(to, from.address, from.size);
  return result != CUDA_SUCCESS ? result : real::cuCtxSynchronize();
}

}  // namespace

CUresult replace_by_copy(Block& block, DeviceMemory& memory, std::span<const CUmemAccessDesc> access) {
  const auto aside = memory.take_address(block.size);
  if (!aside) return CUDA_ERROR_OUT_OF_MEMORY;
  CUmemGenericAllocationHandle fresh = 0;
  CUresult result = memory.create(block.size, fresh);
  if (result == CUDA_SUCCESS) {
    result = map(*aside, block.size, fresh, access);
    if (result == CUDA_SUCCESS) {
      result = copy(*aside, block);
      real::cuMemUnmap(*aside, block.size);
    }
    if (result == CUDA_SUCCESS) result = real::cuMemUnmap(block.address, block.size);
    if (result == CUDA_SUCCESS) {
      result = map(block.address, block.size, fresh, access);
      if (result != CUDA_SUCCESS) map(block.address, block.size, block.handle, access);
    }
    real::cuMemRelease(result == CUDA_SUCCESS ? block.handle : fresh);
  }
  memory.give_address(*aside, block.size);
  if (result != CUDA_SUCCESS) return result;
  block.handle = fresh;
  block.imported = false;
  return CUDA_SUCCESS;
}

}  // namespace torpor::arena
