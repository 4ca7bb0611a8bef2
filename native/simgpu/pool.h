// Memory pools for stream-ordered allocation. Memory goes back to the device as soon as its free is reached; the
// release threshold is kept and answered, and changes nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "abi.h"

namespace sim {

struct Device;
struct Process;

struct Pool {
  Pool(Device& on, bool default_one) : device(on), is_default(default_one) {}

  // Books an allocation, in the pool's own steps; Allocation's end gives the bytes back.
  void took(uint64_t bytes);
  static uint64_t share(uint64_t bytes) { return (bytes + 511) & ~uint64_t{511}; }

  Device& device;
  const bool is_default;
  std::map<int, uint64_t> settings;                          // CUmemPool_attribute, those that can be set
  std::map<std::pair<int, int>, CUmemAccess_flags> access;   // by location, besides the pool's own device
  std::atomic<uint64_t> used = 0, used_high = 0;             // bytes

  CUmemoryPool handle() { return reinterpret_cast<CUmemoryPool>(this); }
};

std::shared_ptr<Pool> make_pool(Device& device, bool is_default);
void make_default_pools(Process& self);

}  // namespace sim
