#include "pool_books.h"

#include "../generated/real.h"
#include "pools.h"

namespace torpor::arena::pools {

State& state() {
  static auto* const instance = new State;
  return *instance;
}

std::shared_ptr<Pool> find(CUmemoryPool handle) {
  const auto found = state().pools.find(handle);
  return found != state().pools.end() ? found->second : nullptr;
}

std::shared_ptr<Pool> add(CUmemoryPool handle, int device) {
  auto fresh = std::make_shared<Pool>();
  fresh->device = device;
  real::cuMemPoolGetAttribute(handle, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &fresh->threshold);
  return state().pools.insert_or_assign(handle, std::move(fresh)).first->second;
}

std::shared_ptr<Pool> find_or_default(CUmemoryPool handle, int device) {
  if (auto known = find(handle)) return known;
  CUmemoryPool standard = nullptr;
  if (real::cuDeviceGetDefaultMemPool(&standard, device) != CUDA_SUCCESS || standard != handle) return nullptr;
  return add(handle, device);
}

std::shared_ptr<Pool> find_or_default(CUmemoryPool handle) {
  int count = 0;
  real::cuDeviceGetCount(&count);
  auto found = find(handle);
  for (int device = 0; found == nullptr && device < count; ++device) found = find_or_default(handle, device);
  return found;
}

std::shared_ptr<Pool> owner_of(CUdeviceptr address) {
  const auto after = state().owners.upper_bound(address);
  return after != state().owners.begin() ? std::prev(after)->second : nullptr;
}

void look_for_surplus() {
  bool any = false;
  each_pool([&any](const Pool& pool, std::uint64_t threshold) {
    any = any || (pool.memory.reserved() > threshold && pool.memory.reserved() > pool.memory.used());
  });
  detail::surplus.store(any, std::memory_order_relaxed);
}

}  // namespace torpor::arena::pools
