// What the program says to a pool, and asks of it.
#include <algorithm>

#include "../generated/real.h"
#include "arena.h"
#include "pool_books.h"
#include "pools.h"

namespace torpor::arena::pools {

void created(CUmemoryPool pool, const CUmemPoolProps& properties) {
  const bool ours = properties.allocType == CU_MEM_ALLOCATION_TYPE_PINNED &&
                    properties.handleTypes == CU_MEM_HANDLE_TYPE_NONE &&
                    properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE && properties.maxSize == 0 &&
                    properties.usage == 0;
  if (!ours || Arena::get() == nullptr) return;
  const std::lock_guard guard(state().lock);
  add(pool, properties.location.id);
}

Destruction::Destruction(CUmemoryPool handle) : handle_(handle) {
  const std::lock_guard guard(state().lock);
  auto gone = state().pools.extract(handle);
  if (!gone) return;
  pool_ = std::move(gone.mapped());
  state().destroyed.push_back(pool_);
}

CUresult Destruction::ended(CUresult result) {
  if (pool_ == nullptr) return result;
  const std::lock_guard guard(state().lock);
  if (result != CUDA_SUCCESS) {
    std::erase(state().destroyed, pool_);
    state().pools.insert_or_assign(handle_, pool_);
  }
  look_for_surplus();
  return result;
}

void set(CUmemoryPool handle, CUmemPool_attribute attribute, const void* value) {
  const std::lock_guard guard(state().lock);
  const auto pool = Arena::get() != nullptr ? find_or_default(handle) : nullptr;
  if (pool == nullptr) return;
  if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) pool->threshold = *static_cast<const std::uint64_t*>(value);
  if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) pool->memory.reset_reserved_high();
  if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH) pool->memory.reset_used_high();
  look_for_surplus();
}

void amend(CUmemoryPool handle, CUmemPool_attribute attribute, void* value) {
  const std::lock_guard guard(state().lock);
  const auto pool = find(handle);
  if (pool == nullptr) return;
  const StreamPool& memory = pool->memory;
  auto* const amount = static_cast<std::uint64_t*>(value);
  if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) *amount += memory.reserved();
  if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) *amount += memory.reserved_high();
  if (attribute == CU_MEMPOOL_ATTR_USED_MEM_CURRENT) *amount += memory.used();
  if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH) *amount += memory.used_high();
}

CUresult open_to(CUmemoryPool handle, int device) {
  std::vector<CUdeviceptr> blocks;
  std::shared_ptr<Pool> pool;
  {
    const std::lock_guard guard(state().lock);
    pool = Arena::get() != nullptr ? find_or_default(handle) : nullptr;
    if (pool == nullptr || pool->device == device || std::ranges::find(pool->readers, device) != pool->readers.end()) {
      return CUDA_SUCCESS;
    }
    pool->readers.push_back(device);
    for (const auto& [address, size] : pool->memory.blocks()) blocks.push_back(address);
  }
  for (const CUdeviceptr block : blocks) {
    const CUresult result = Arena::get()->open_pool_block(block, device);
    if (result == CUDA_SUCCESS) continue;
    const std::lock_guard guard(state().lock);
    std::erase(pool->readers, device);
    return result;
  }
  return CUDA_SUCCESS;
}

}  // namespace torpor::arena::pools
