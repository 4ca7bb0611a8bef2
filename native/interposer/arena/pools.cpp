#include "pools.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>
#include <vector>

#include "../generated/real.h"
#include "../hooks/aside.h"
#include "../hooks/residual.h"
#include "../prim/thread.h"
#include "../vm/loss.h"
#include "arena.h"
#include "stream_key.h"
#include "stream_pool.h"

namespace torpor::arena::pools {
namespace {

constexpr std::uint64_t kBlock = 32ULL << 20;       // the least that a pool grows by, as the driver's
constexpr std::uint64_t kFenceEvery = 64ULL << 20;  // bytes freed in a stream
constexpr std::uint64_t kLargest = 1ULL << 47;

struct Pool {
  int device = 0;
  std::uint64_t threshold = 0;
  std::vector<int> readers;  // further devices
  StreamPool memory;
};

struct State {
  std::mutex lock;  // held over calls that record and query events, over none that waits for the GPU
  std::unordered_map<CUmemoryPool, std::shared_ptr<Pool>> pools;
  std::vector<std::shared_ptr<Pool>> destroyed;     // until their memory is free
  std::map<CUdeviceptr, std::shared_ptr<Pool>> owners;  // of blocks
};

State& state() {
  static auto* const instance = new State;
  return *instance;
}

// The following need the lock.

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

// For calls that name a pool and no device.
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

template <typename Visit>
void each_pool(Visit visit) {
  for (const auto& [handle, pool] : state().pools) visit(*pool, pool->threshold);
  for (const auto& pool : state().destroyed) visit(*pool, std::uint64_t{0});
}

void destroy(const std::vector<CUevent>& events) {
  for (const CUevent event : events) real::cuEventDestroy_v2(event);
}

// A fence behind all frees of a stream so far, which the calling thread may use.
void put_fence(const StreamKey& key, StreamPool::Lane& lane) {
  if (lane.parts.empty() || (!lane.fences.empty() && lane.fences.back().frees == lane.frees)) return;
  const CUevent event = recorded(key);
  if (event == nullptr) return;
  lane.fences.push_back({lane.frees, event});
  lane.unfenced = 0;
}

// Only streams that this thread has freed in: another thread may be capturing in its own.
void fence_own(Pool& pool) {
  if (active_captures() > 0) return;
  const std::int32_t self = thread::id();
  for (auto& [key, lane] : pool.memory.lanes()) {
    if (!lane.ended && lane.thread == self) put_fence(key, lane);
  }
}

// What was freed before a fence that its stream has passed is for everybody.
void pass_fences(Pool& pool) {
  const Aside aside;
  StreamPool::Lanes& lanes = pool.memory.lanes();
  for (auto each = lanes.begin(); each != lanes.end();) {
    StreamPool::Lane& lane = each->second;
    while (!lane.fences.empty()) {
      const CUevent event = lane.fences.front().event;
      const CUresult result = real::cuEventQuery(event);
      if (result == CUDA_ERROR_NOT_READY) break;
      if (result == CUDA_SUCCESS) pool.memory.pass_fence(lane);
      lane.fences.erase(lane.fences.begin());
      destroy({event});
    }
    each = StreamPool::is_idle(lane) ? lanes.erase(each) : std::next(each);
  }
}

void look_for_surplus() {
  bool any = false;
  each_pool([&any](const Pool& pool, std::uint64_t threshold) {
    any = any || (pool.memory.reserved() > threshold && pool.memory.reserved() > pool.memory.used());
  });
  detail::surplus.store(any, std::memory_order_relaxed);
}

void drop(Pool& pool, std::uint64_t keep, std::vector<CUdeviceptr>& gone) {
  for (const CUdeviceptr block : pool.memory.drop_blocks(keep)) {
    state().owners.erase(block);
    gone.push_back(block);
  }
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
  std::erase_if(waited, [](CUcontext context) { return contexts::synchronize(context) != CUDA_SUCCESS; });
  const std::lock_guard guard(state().lock);
  for (const auto& [pool, frees] : before) {
    for (const CUcontext context : waited) pool->memory.pass_context(context, frees);
  }
}

void pass_what_is_done(Pool& pool) {
  fence_own(pool);
  pass_fences(pool);
}

std::uint64_t keep_threshold(std::uint64_t threshold) { return threshold; }

// One more block; its whole size is for everybody.
CUresult grow(const std::shared_ptr<Pool>& pool, std::uint64_t size, const std::vector<int>& readers) {
  CUdeviceptr address = 0;
  std::uint64_t made = std::max(size, kBlock);
  CUresult result = Arena::get()->make_pool_block(pool->device, made, readers, address);
  if (result == CUDA_ERROR_OUT_OF_MEMORY && made > size) {
    made = size;
    result = Arena::get()->make_pool_block(pool->device, made, readers, address);
  }
  if (result != CUDA_SUCCESS) return result;
  const std::lock_guard guard(state().lock);
  pool->memory.add_block(address, made);
  state().owners.emplace(address, pool);
  return CUDA_SUCCESS;
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
  {
    const std::lock_guard guard(state().lock);
    pool = find_or_default(handle, context->device);
    if (pool == nullptr) return std::nullopt;
    found = pool->memory.take(key, size);
    if (!found) {
      pass_fences(*pool);
      found = pool->memory.take(key, size);
    }
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
  StreamPool::Lane& lane = pool->memory.give(key, thread::id(), allocation.address, allocation.size);
  // Nobody else can put a fence into a thread's own stream.
  if (lane.unfenced >= kFenceEvery || key.thread != 0) put_fence(key, lane);
  look_for_surplus();
  return CUDA_SUCCESS;
}

void returned(const Allocation& allocation) {
  const std::lock_guard guard(state().lock);
  owner_of(allocation.address)->memory.give(allocation.address, allocation.size);
  look_for_surplus();
}

void created(CUmemoryPool pool, const CUmemPoolProps& properties) {
  const bool ours = properties.allocType == CU_MEM_ALLOCATION_TYPE_PINNED &&
                    properties.handleTypes == CU_MEM_HANDLE_TYPE_NONE &&
                    properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE && properties.maxSize == 0 &&
                    properties.usage == 0;
  if (!ours || Arena::get() == nullptr) return;
  const std::lock_guard guard(state().lock);
  add(pool, properties.location.id);
}

void destroyed(CUmemoryPool handle) {
  const std::lock_guard guard(state().lock);
  auto gone = state().pools.extract(handle);
  if (!gone) return;
  state().destroyed.push_back(std::move(gone.mapped()));
  look_for_surplus();
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

CUresult open_to(CUmemoryPool handle, int device) {
  std::vector<CUdeviceptr> blocks;
  {
    const std::lock_guard guard(state().lock);
    const auto pool = Arena::get() != nullptr ? find_or_default(handle) : nullptr;
    if (pool == nullptr || pool->device == device || std::ranges::find(pool->readers, device) != pool->readers.end()) {
      return CUDA_SUCCESS;
    }
    pool->readers.push_back(device);
    for (const auto& [address, size] : pool->memory.blocks()) blocks.push_back(address);
  }
  for (const CUdeviceptr block : blocks) {
    const CUresult result = Arena::get()->open_pool_block(block, device);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

void stream_ends(CUstream stream) {
  if (stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD) return;
  const std::lock_guard guard(state().lock);
  each_pool([stream](Pool& pool, std::uint64_t) {
    for (auto& [key, lane] : pool.memory.lanes()) {
      if (key.stream != stream || lane.ended) continue;
      put_fence(key, lane);
      lane.ended = true;
    }
  });
}

void context_ends(CUcontext context) {
  const auto uses = [context](const auto& each) { return each.first.context == context; };
  bool any = false;
  {
    const std::lock_guard guard(state().lock);
    each_pool([&](Pool& pool, std::uint64_t) { any = any || std::ranges::any_of(pool.memory.lanes(), uses); });
  }
  if (!any) return;
  const bool alive = contexts::synchronize(context) == CUDA_SUCCESS;
  const std::lock_guard guard(state().lock);
  each_pool([&](Pool& pool, std::uint64_t) {
    for (auto& [key, lane] : pool.memory.lanes()) {
      if (key.context != context) continue;
      const auto events = pool.memory.pass_all(lane);
      if (alive) destroy(events);
    }
    std::erase_if(pool.memory.lanes(), uses);
  });
}

bool release_free() {
  if (active_captures() == 0) wait_for_frees();
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
