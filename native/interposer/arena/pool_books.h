// The pools that are ours, and which of them has which block. Everything here but state() needs the lock.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "../../abi/cuda_driver.h"
#include "stream_pool.h"

namespace torpor::arena::pools {

struct Pool {
  int device = 0;
  std::uint64_t threshold = 0;
  std::vector<int> readers;  // further devices
  StreamPool memory;
};

struct State {
  std::mutex lock;  // held over calls that record and query events, over none that waits for the GPU
  std::unordered_map<CUmemoryPool, std::shared_ptr<Pool>> pools;
  std::vector<std::shared_ptr<Pool>> destroyed;         // until their memory is free
  std::map<CUdeviceptr, std::shared_ptr<Pool>> owners;  // of blocks
  std::unordered_map<CUstream, std::uint32_t> ended;    // how many streams of that handle have been destroyed
};

State& state();

std::shared_ptr<Pool> find(CUmemoryPool handle);
// Enters it.
std::shared_ptr<Pool> add(CUmemoryPool handle, int device);
// The device's default pool is entered when it is first named. For calls that name a pool and no device every device's is.
std::shared_ptr<Pool> find_or_default(CUmemoryPool handle, int device);
std::shared_ptr<Pool> find_or_default(CUmemoryPool handle);
std::shared_ptr<Pool> owner_of(CUdeviceptr address);

// Whether any pool holds more than its threshold says.
void look_for_surplus();

// `visit` gets each pool and its threshold.
template <typename Visit>
void each_pool(Visit visit) {
  for (const auto& [handle, pool] : state().pools) visit(*pool, pool->threshold);
  for (const auto& pool : state().destroyed) visit(*pool, std::uint64_t{0});
}

}  // namespace torpor::arena::pools
