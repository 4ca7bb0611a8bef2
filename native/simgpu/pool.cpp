#include "pool.h"

#include "process.h"

namespace sim {

void make_default_pools(Process& self) {
  for (const auto& device : self.devices) {
    device->default_pool = make_pool(*device, true);
    device->current_pool = device->default_pool;
    self.pools.add(device->default_pool);
  }
}

std::shared_ptr<Pool> make_pool(Device& device, bool is_default) {
  auto pool = std::make_shared<Pool>(device, is_default);
  pool->settings = {
      {CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, 1},
      {CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, 1},
      {CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, 1},
      {CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 0},
  };
  return pool;
}

void Pool::took(uint64_t bytes) {
  uint64_t now = used += share(bytes);
  if (now > used_high) used_high = now;
}

}  // namespace sim
