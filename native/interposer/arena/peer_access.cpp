// Opening blocks to the devices of peers.
#include <algorithm>

#include "../generated/real.h"
#include "arena.h"

namespace torpor::arena {

std::vector<CUmemAccessDesc> Arena::access(const Block& block) const {
  std::vector<CUmemAccessDesc> out = peers_.access(block.device);
  for (const int reader : block.readers) {
    const bool known = std::any_of(out.begin(), out.end(),
                                   [reader](const CUmemAccessDesc& each) { return each.location.id == reader; });
    if (!known) out.push_back(access_for(reader, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
  }
  return out;
}

// The structure lock is held exclusively, so no block comes or goes meanwhile.
CUresult Arena::set_access(int device, const CUmemAccessDesc& access) {
  for (const auto& [address, block] : blocks_) {
    if (block->device != device || block->away) continue;
    const CUresult result = real::cuMemSetAccess(address, block->size, &access, 1);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

CUresult Arena::open_pool_block(CUdeviceptr address, int device) {
  const std::unique_lock structure(structure_);
  const auto found = blocks_.find(address);
  if (found == blocks_.end() || !found->second->pooled) return CUDA_SUCCESS;  // given back meanwhile
  const CUmemAccessDesc access = access_for(device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  const CUresult result = real::cuMemSetAccess(address, found->second->size, &access, 1);
  if (result == CUDA_SUCCESS) found->second->readers.push_back(device);
  return result;
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
