#include "exec/block.h"

#include <bit>

namespace sim::exec {

const MemoryCheck::Range* Worker::range(uint64_t address) {
  for (const MemoryCheck::Range& one : known_)
    if (address - one.base < one.size) {
      recent = one;
      return &recent;
    }
  MemoryCheck::Range found;
  if (!grid.launch.memory->find(address, found) || address - found.base >= found.size) return nullptr;
  known_[oldest_++ % known_.size()] = found;
  recent = found;
  return &recent;
}

Block::Block(Worker& of, uint64_t which) : worker(of), grid(of.grid), number(which), shared_(zeroed(grid.shared_bytes)) {
  const auto& size = grid.launch.grid;
  position = {static_cast<uint32_t>(which % size[0]), static_cast<uint32_t>(which / size[0] % size[1]),
              static_cast<uint32_t>(which / size[0] / size[1])};
  for (uint32_t first = 0; first < grid.threads; first += kLanes) {
    warps_.push_back(std::make_unique<Warp>(*this, first / kLanes, std::min(grid.threads - first, kLanes)));
    warps_.back()->start(*grid.kernel.code);
  }
}

bool Block::release(uint32_t which) {
  Barrier& barrier = barriers_[which];
  uint32_t waiting = 0, live = 0;
  for (const auto& warp : warps_) {
    waiting += std::popcount(warp->waiting(which));
    live += std::popcount(warp->live());
  }
  if (!waiting) return false;
  const bool full = barrier.expected ? waiting + barrier.arrived >= barrier.expected : waiting >= live;
  if (!full) return false;
  const uint32_t value = barrier.mode == 0   ? barrier.count
                         : barrier.mode == 1 ? barrier.count == waiting
                                             : barrier.count != 0;
  barrier = {};
  for (const auto& warp : warps_) warp->release(which, value);
  return true;
}

bool Block::run() {
  bool moved = false;
  bool all_done = true;
  for (const auto& warp : warps_) {
    if (grid.stop.load(std::memory_order_relaxed)) throw Stop{{Fault::Kind::cancelled, {}}};
    if (warp->done()) continue;
    moved |= warp->run();
    all_done &= warp->done();
  }
  if (all_done) return false;
  for (uint32_t which = 0; which < barriers_.size(); ++which) moved |= release(which);
  if (moved) return true;
  for (const auto& warp : warps_) moved |= warp->force();
  if (moved) return true;
  throw Stop{{Fault::Kind::trap, "kernel " + grid.kernel.name + ": its threads wait for a barrier that cannot be reached"}};
}

}  // namespace sim::exec
