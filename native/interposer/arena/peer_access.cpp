// Opening blocks to the devices of peers.
#include "../generated/real.h"
#include "arena.h"

namespace torpor::arena {

// The structure lock is held exclusively, so no block comes or goes meanwhile.
CUresult Arena::set_access(int device, const CUmemAccessDesc& access) {
  for (const auto& [address, block] : blocks_) {
    if (block->device != device || block->away) continue;
    const CUresult result = real::cuMemSetAccess(address, block->size, &access, 1);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

CUresult Arena::open_peer(const contexts::Context& from, const contexts::Context& to) {
  if (from.device == to.device) return CUDA_SUCCESS;
  const std::unique_lock structure(structure_);
  if (!peers_.reaches(from.device, to.device)) {
    const CUresult result = set_access(to.device, access_for(from.device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    if (result != CUDA_SUCCESS) {
      set_access(to.device, access_for(from.device, CU_MEM_ACCESS_FLAGS_PROT_NONE));
      return result;
    }
  }
  peers_.enable(from, to);
  return CUDA_SUCCESS;
}

void Arena::close_peer(const contexts::Context& from, const contexts::Context& to) {
  if (from.device == to.device) return;
  const std::unique_lock structure(structure_);
  peers_.disable(from, to);
  if (!peers_.reaches(from.device, to.device)) {
    set_access(to.device, access_for(from.device, CU_MEM_ACCESS_FLAGS_PROT_NONE));
  }
}

}  // namespace torpor::arena
