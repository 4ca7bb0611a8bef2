#include "pool_passing.h"

#include <algorithm>
#include <shared_mutex>

#include "../generated/real.h"
#include "../hooks/aside.h"
#include "../hooks/capture_hold.h"
#include "../hooks/residual.h"
#include "../prim/thread.h"
#include "contexts.h"
#include "pools.h"

namespace torpor::arena::pools {
namespace {

// Only streams that this thread has freed in: another thread may be capturing in its own.
void fence_own(Pool& pool) {
  if (active_captures() > 0) return;
  const std::uint64_t self = thread::serial();
  for (auto& [key, lane] : pool.memory.lanes()) {
    if (!lane.ended && lane.thread == self) put_fence(key, lane);
  }
}

void drop_idle_lanes(StreamPool::Lanes& lanes) {
  std::erase_if(lanes, [](const auto& each) { return StreamPool::is_idle(each.second); });
}

}  // namespace

void destroy(const std::vector<CUevent>& events) {
  for (const CUevent event : events) real::cuEventDestroy_v2(event);
}

void put_fence(const StreamKey& key, StreamPool::Lane& lane) {
  if (lane.parts.empty() || (!lane.fences.empty() && lane.fences.back().frees == lane.frees)) return;
  const CUevent event = recorded(key);
  if (event == nullptr) return;
  lane.fences.push_back({lane.frees, event});
  lane.unfenced = 0;
}

void pass_fences(Pool& pool) {
  const Aside aside;
  for (auto& [key, lane] : pool.memory.lanes()) {
    while (!lane.fences.empty()) {
      const CUevent event = lane.fences.front().event;
      const CUresult result = real::cuEventQuery(event);
      if (result == CUDA_ERROR_NOT_READY) break;
      if (result == CUDA_SUCCESS) pool.memory.pass_fence(lane);
      lane.fences.erase(lane.fences.begin());
      destroy({event});
    }
  }
  drop_idle_lanes(pool.memory.lanes());
}

// A stream orders its work behind that of its context's legacy stream, unless it was made not to, so both have to be done. And
// that one behind all streams', which takes a fence; it is put where the driver would not have to wait for room.
void pass_idle(Pool& pool) {
  const std::shared_lock hold(beginning_of_captures());
  if (captures_unclear()) return;
  bool fenced = false;
  for (auto& [key, lane] : pool.memory.lanes()) {
    if (lane.parts.empty() || lane.ended || key.thread != 0) continue;
    if (!is_done(key) || !is_done({key.context})) continue;
    if (key.stream != nullptr) {
      destroy(pool.memory.pass_all(lane));
    } else {
      put_fence(key, lane);
      fenced = true;
    }
  }
  if (fenced) return pass_fences(pool);
  drop_idle_lanes(pool.memory.lanes());
}

void pass_what_is_done(Pool& pool) {
  pass_fences(pool);
  pass_idle(pool);
  fence_own(pool);
}

void stream_ends(CUstream stream) {
  if (stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD) return;
  const std::lock_guard guard(state().lock);
  ++state().ended[stream];
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

}  // namespace torpor::arena::pools
