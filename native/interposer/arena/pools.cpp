#include "pools.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "../generated/real.h"
#include "../hooks/residual.h"
#include "../prim/thread.h"
#include "../vm/loss.h"
#include "arena.h"
#include "pool_books.h"
#include "pool_passing.h"

namespace torpor::arena::pools {
namespace {

constexpr std::uint64_t kBlock = 32ULL << 20;       // the least that a pool grows by, as the driver's
constexpr std::uint64_t kFenceEvery = 64ULL << 20;  // bytes freed in a stream
constexpr std::uint64_t kLargest = 1ULL << 47;

void drop(Pool& pool, std::uint64_t keep, std::vector<CUdeviceptr>& gone) {
  for (const CUdeviceptr block : pool.memory.drop_blocks(keep)) {
    state().owners.erase(block);
    gone.push_back(block);
  }
}

// How many streams had that handle before.
std::uint32_t life_of(const StreamKey& key) {
  const auto found = state().ended.find(key.stream);
  return found != state().ended.end() ? found->second : 0;
}

bool unmap(const std::vector<CUdeviceptr>& blocks) {
  for (const CUdeviceptr block : blocks) Arena::get()->release_pool_block(block);
  return !blocks.empty();
}

// `pass` makes what can be used by everybody so; `keep` says how many bytes a pool with that threshold keeps.
template <typename Pass, typename Keep>
bool give_back(Pass pass, Keep keep) {
  std::vector<CUdeviceptr> gone;
  {
    const std::lock_guard guard(state().lock);
    each_pool([&](Pool& pool, std::uint64_t threshold) {
      pass(pool);
      drop(pool, keep(threshold), gone);
    });
    std::erase_if(state().destroyed, [](const auto& pool) { return pool->memory.reserved() == 0; });
    look_for_surplus();
  }
  return unmap(gone);
}

// What other threads have freed is known not to be in use only when their streams have been waited for.
void wait_for_frees() {
  std::vector<std::pair<std::shared_ptr<Pool>, std::uint64_t>> before;
  std::set<CUcontext> waited;
  {
    const std::lock_guard guard(state().lock);
    const auto note = [&](const std::shared_ptr<Pool>& pool) {
      if (!pool->memory.lanes().empty()) before.emplace_back(pool, pool->memory.frees());
      for (const auto& [key, lane] : pool->memory.lanes()) waited.insert(key.context);
    };
    for (const auto& [handle, pool] : state().pools) note(pool);
    for (const auto& pool : state().destroyed) note(pool);
  }
  std::erase_if(waited, [](CUcontext context) { return contexts::synchronize_unless_capturing(context) != CUDA_SUCCESS; });
  const std::lock_guard guard(state().lock);
  for (const auto& [pool, frees] : before) {
    for (const CUcontext context : waited) pool->memory.pass_context(context, frees);
  }
}

std::uint64_t keep_threshold(std::uint64_t threshold) { return threshold; }

// One more block; its whole size is for everybody.
CUresult grow(const std::shared_ptr<Pool>& pool, std::uint64_t size, std::vector<int> readers) {
  CUdeviceptr address = 0;
  std::uint64_t made = std::max(size, kBlock);
  CUresult result = Arena::get()->make_pool_block(pool->device, made, readers, address);
  if (result == CUDA_ERROR_OUT_OF_MEMORY && made > size) {
    made = size;
    result = Arena::get()->make_pool_block(pool->device, made, readers, address);
  }
  while (result == CUDA_SUCCESS) {
    int further = 0;
    {
      const std::lock_guard guard(state().lock);
      // The pool may have been opened to a device meanwhile, which did not see this block.
      const auto missing = std::ranges::find_if(pool->readers, [&readers](int each) { return !std::ranges::count(readers, each); });
      if (missing == pool->readers.end()) {
        pool->memory.add_block(address, made);
        state().owners.emplace(address, pool);
        return CUDA_SUCCESS;
      }
      further = *missing;
    }
    readers.push_back(further);
    result = Arena::get()->open_pool_block(address, further);
    if (result != CUDA_SUCCESS) Arena::get()->release_pool_block(address);
  }
  return result;
}

}  // namespace

namespace detail {

constinit std::atomic<bool> surplus{false};

}  // namespace detail

void give_back_surplus() {
  if (active_captures() == 0) give_back(pass_what_is_done, keep_threshold);
}

std::optional<CUresult> allocate(std::uint64_t size, CUmemoryPool handle, CUstream stream, bool per_thread_default,
                                 CUdeviceptr& out) {
  Arena* const arena = Arena::get();
  if (arena == nullptr || size == 0 || size > kLargest || active_captures() > 0 || vm::context_was_lost()) return std::nullopt;
  StreamKey key;
  const bool known = stream_key(stream, per_thread_default, key) == CUDA_SUCCESS;
  const auto context = known ? context_of(key) : std::nullopt;
  if (!context) return std::nullopt;
  if (handle == nullptr && real::cuDeviceGetMemPool(&handle, context->device) != CUDA_SUCCESS) return std::nullopt;
  std::shared_ptr<Pool> pool;
  std::optional<CUdeviceptr> found;
  std::vector<int> readers;
  std::uint32_t life = 0;
  {
    const std::lock_guard guard(state().lock);
    pool = find_or_default(handle, context->device);
    if (pool == nullptr) return std::nullopt;
    found = pool->memory.take(key, size);
    if (!found) {
      pass_fences(*pool);
      found = pool->memory.take(key, size);
    }
    if (!found) {
      pass_idle(*pool);
      found = pool->memory.take(key, size);
    }
    life = life_of(key);
    readers = pool->readers;
  }
  DeviceMemory* const memory = arena->device(pool->device);
  if (memory == nullptr || !memory->usable()) return std::nullopt;
  while (!found) {
    const std::uint64_t grain = memory->granularity();
    const CUresult result = grow(pool, (size + grain - 1) / grain * grain, readers);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && arena->release_unused()) continue;
    if (result == CUDA_ERROR_OUT_OF_MEMORY) return result;
    if (result != CUDA_SUCCESS) return std::nullopt;
    const std::lock_guard guard(state().lock);
    found = pool->memory.take(key, size);  // another thread may have been quicker
  }
  Allocation fresh;
  fresh.address = *found;
  fresh.size = size;
  fresh.context = context->handle;
  fresh.device = pool->device;
  fresh.pool = handle;
  fresh.order = key;
  fresh.stream_life = life;
  arena->enter(fresh);
  out = *found;
  return CUDA_SUCCESS;
}

CUresult free(const Allocation& allocation, CUstream stream, bool per_thread_default) {
  StreamKey key;
  if (const CUresult result = stream_key(stream, per_thread_default, key); result != CUDA_SUCCESS) return result;
  if (!Arena::get()->forget(allocation)) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard guard(state().lock);
  const auto pool = owner_of(allocation.address);
  StreamPool::Lane& lane = pool->memory.give(key, thread::serial(), allocation.address, allocation.size);
  // Nobody else can put a fence into a thread's own stream.
  if (lane.unfenced >= kFenceEvery || key.thread != 0) put_fence(key, lane);
  look_for_surplus();
  return CUDA_SUCCESS;
}

// The program says that nothing uses the allocation any more, and the driver waits for nothing then. The memory may be in use
// all the same, by what had it before and freed it in this stream: so it is free in the order in which it was taken.
bool free_at_once(const Allocation& allocation, CUresult& result) {
  const StreamKey& key = allocation.order;
  if (!contexts::find(key.context) || (key.thread != 0 && key.thread != thread::serial())) return false;
  const std::lock_guard guard(state().lock);
  if (life_of(key) != allocation.stream_life) return false;
  result = Arena::get()->forget(allocation) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  if (result != CUDA_SUCCESS) return true;
  StreamPool::Lane& lane = owner_of(allocation.address)->memory.give(key, 0, allocation.address, allocation.size);
  if (key.thread != 0) put_fence(key, lane);
  look_for_surplus();
  return true;
}

void returned(const Allocation& allocation) {
  const std::lock_guard guard(state().lock);
  owner_of(allocation.address)->memory.give(allocation.address, allocation.size);
  look_for_surplus();
}

void trim(CUmemoryPool handle, std::uint64_t keep) {
  if (active_captures() > 0) return;
  std::vector<CUdeviceptr> gone;
  {
    const std::lock_guard guard(state().lock);
    const auto pool = find(handle);
    if (pool == nullptr) return;
    pass_what_is_done(*pool);
    drop(*pool, keep, gone);
    look_for_surplus();
  }
  unmap(gone);
}

bool release_free() {
  wait_for_frees();
  return give_back(pass_what_is_done, [](std::uint64_t) { return std::uint64_t{0}; });
}

void settle() {
  const auto all = [](Pool& pool) {
    for (auto& [key, lane] : pool.memory.lanes()) destroy(pool.memory.pass_all(lane));
    pool.memory.lanes().clear();
  };
  give_back(all, keep_threshold);
}

}  // namespace torpor::arena::pools
