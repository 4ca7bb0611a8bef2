// Giving memory back: waiting as cuMemFree waits, parking while a stream capture forbids waiting.
#include <algorithm>

#include "../generated/real.h"
#include "../hooks/residual.h"
#include "arena.h"
#include "pools.h"

namespace torpor::arena {

std::optional<CUresult> Arena::wait_until_unused(const Allocation& allocation) const {
  const std::optional<CUresult> result = contexts::synchronize_unless_capturing(allocation.context);
  // The context was destroyed by another thread after the lookup; its memory went with it.
  return result && contexts::is_gone(*result) ? CUDA_SUCCESS : result;
}

bool Arena::release(const Allocation& allocation, bool unused) {
  const bool park = !unused || active_captures() > 0;  // the capture that forbade waiting may be over by now
  if (!forget(allocation)) return false;
  if (park) {
    const std::lock_guard guard(lock_);
    parked_.push_back(allocation);
    return true;
  }
  dispose(allocation);
  release_parked();
  return true;
}

// The caller has taken the allocation out of the index, so nobody else can come here with it.
void Arena::dispose(const Allocation& allocation) {
  if (allocation.pool != nullptr) return pools::returned(allocation);
  const std::shared_lock structure(structure_);
  std::unique_ptr<Block> gone;
  {
    const std::lock_guard guard(lock_);
    const auto each = std::prev(blocks_.upper_bound(allocation.address));
    Block& block = *each->second;
    if (block.opened && --block.opened_parts != 0) return;
    if (block.slab) {
      block.slab->give(allocation.address, allocation.size);
      if (!block.slab->unused()) return;
      // One empty slab stays, so that a program that frees and allocates in turn makes no handles.
      const bool spare = std::any_of(slabs_.begin(), slabs_.end(), [&block](const auto& other) {
        return other.second != &block && other.second->device == block.device && other.second->slab->unused();
      });
      if (!spare) return;
    }
    gone = detach(each);
  }
  unmap(*gone);
}

// Takes a block out of the books; lock_ is held.
std::unique_ptr<Block> Arena::detach(Blocks::iterator block) {
  std::unique_ptr<Block> out = std::move(block->second);
  slabs_.erase(block->first);
  blocks_.erase(block);
  return out;
}

// Leaves the address to others only once nothing is mapped there.
void Arena::unmap(Block& block) {
  if (!block.away) {
    if (real::cuMemUnmap(block.address, block.size) != CUDA_SUCCESS) return;
    real::cuMemRelease(block.handle);
  }
  if (DeviceMemory* const memory = device(block.device)) memory->give_address(block.address, block.size);
}

void Arena::release_pool_block(CUdeviceptr address) {
  const std::shared_lock structure(structure_);
  std::unique_ptr<Block> gone;
  {
    const std::lock_guard guard(lock_);
    gone = detach(blocks_.find(address));
  }
  unmap(*gone);
}

bool Arena::release_unused() {
  const bool parked = release_parked(), spares = release_spares(), pooled = pools::release_free();
  return parked || spares || pooled;
}

// Frees that came during a capture. Waits for the contexts they belong to; called where waiting is expected anyway.
bool Arena::release_parked() {
  if (active_captures() > 0) return false;
  std::vector<Allocation> parked;
  std::vector<Allocation> probes;
  {
    const std::lock_guard guard(lock_);
    parked.swap(parked_);
    probes.swap(probes_);
  }
  for (const Allocation& probe : probes) real::cuMemFree_v2(probe.address);
  for (const Allocation& allocation : parked) {
    const std::optional<CUresult> result = contexts::synchronize_unless_capturing(allocation.context);
    if (result && (*result == CUDA_SUCCESS || contexts::is_gone(*result))) {
      dispose(allocation);
    } else {
      const std::lock_guard guard(lock_);
      parked_.push_back(allocation);
    }
  }
  return !parked.empty();
}

// Whether this thread may allocate during somebody's capture is the driver's to say, and an allocation that it refuses
// also ends the capture. Our calls are none that it would refuse, so ask with one that it would.
CUresult Arena::probe_capture(const contexts::Context& context) {
  CUdeviceptr probe = 0;
  const CUresult result = real::cuMemAlloc_v2(&probe, 1);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) return CUDA_SUCCESS;
  if (result != CUDA_SUCCESS) return result;
  const std::lock_guard guard(lock_);
  probes_.push_back({probe, 1, 0, context.id, context.handle, context.device});
  return CUDA_SUCCESS;
}

void Arena::context_gone(const contexts::Context& context) {
  std::vector<Allocation> owned;
  {
    const std::lock_guard guard(lock_);
    for (auto each = allocations_.begin(); each != allocations_.end();) {
      if (each->second.owner == context.id) {
        owned.push_back(each->second);
        each = allocations_.erase(each);
      } else {
        ++each;
      }
    }
    const auto kept = std::partition(parked_.begin(), parked_.end(),
                                     [&context](const Allocation& each) { return each.owner != context.id; });
    owned.insert(owned.end(), kept, parked_.end());
    parked_.erase(kept, parked_.end());
    std::erase_if(probes_, [&context](const Allocation& each) { return each.owner == context.id; });
  }
  for (const Allocation& allocation : owned) dispose(allocation);
  const std::unique_lock structure(structure_);
  for (const auto& [device, shut_out] : peers_.forget(context)) {
    set_access(device, access_for(shut_out, CU_MEM_ACCESS_FLAGS_PROT_NONE));
  }
}

}  // namespace torpor::arena
