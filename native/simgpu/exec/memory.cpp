#include "exec/memory.h"

#include <bit>

namespace sim::exec {
namespace {

bool inside(uint64_t address, uint64_t size, uint64_t base, uint64_t length) {
  return length >= size && address - base <= length - size;
}

// The program's own address of each lane, before the space is looked at.
template <typename T>
void add_offset(const T* base, uint64_t offset, uint32_t mask, uint64_t* out) {
  for (unsigned lane = 0; lane < kLanes; ++lane) out[lane] = static_cast<T>(base[lane] + static_cast<T>(offset));
  if (mask == kAllLanes) return;
  const uint64_t first = out[std::countr_zero(mask)];
  for (unsigned lane = 0; lane < kLanes; ++lane) out[lane] = mask >> lane & 1 ? out[lane] : first;
}

bool all_inside(const uint64_t* at, uint64_t size, uint64_t base, uint64_t length) {
  if (length < size) return false;
  const uint64_t room = length - size;
  uint64_t outside = 0;
  for (unsigned lane = 0; lane < kLanes; ++lane) outside |= (at[lane] - base > room) ? 1 : 0;
  return !outside;
}

}  // namespace

std::byte* host_place(Warp& warp, unsigned lane, uint64_t address, unsigned size, bool write) {
  Block& block = warp.block;
  const auto shared = reinterpret_cast<uint64_t>(block.shared());
  const auto local = reinterpret_cast<uint64_t>(warp.stack_bytes() ? warp.stack(lane) : nullptr);
  const auto parameters = reinterpret_cast<uint64_t>(block.grid.launch.parameters);
  const auto meeting = reinterpret_cast<uint64_t>(block.grid.meeting.data());
  const bool own = (block.grid.launch.cooperative && inside(address, size, meeting, sizeof block.grid.meeting)) ||
                   inside(address, size, shared, block.grid.shared_bytes) ||
                   (local && inside(address, size, local, warp.stack_bytes())) ||
                   (!write && parameters && inside(address, size, parameters, block.grid.kernel.parameter_bytes));
  if (!own) {
    const MemoryCheck::Range* range = block.worker.range(address);
    if (!range || !inside(address, size, range->base, range->size) || (write && !range->writable)) return nullptr;
  }
  return reinterpret_cast<std::byte*>(address);
}

void find_places(Warp& warp, const Op& op, unsigned bytes, bool write, Places& out) {
  const uint32_t mask = warp.mask;
  uint64_t* at = out.at;
  if (op.a == kNone) {
    for (unsigned lane = 0; lane < kLanes; ++lane) at[lane] = static_cast<uint64_t>(op.immediate);
  } else if (op.wide) {
    add_offset(warp.in<uint64_t>(op.a), op.immediate, mask, at);
  } else {
    add_offset(warp.in<uint32_t>(op.a), op.immediate, mask, at);
  }
  uint64_t low = 0;
  for (unsigned lane = 0; lane < kLanes; ++lane) low |= at[lane];
  if (low & (bytes - 1)) {
    for (unsigned lane = 0; lane < kLanes; ++lane)
      if ((mask >> lane & 1) && (at[lane] & (bytes - 1)))
        warp.fail(op, Fault::Kind::misaligned_address, lane, "misaligned address " + std::to_string(at[lane]));
  }
  const auto illegal = [&](unsigned lane) {
    warp.fail(op, Fault::Kind::illegal_address, lane, "illegal address " + std::to_string(at[lane]));
  };
  Block& block = warp.block;
  switch (op.memory) {
    case Memory::shared: {
      if (!all_inside(at, bytes, 0, block.grid.shared_bytes))
        for (unsigned lane = 0; lane < kLanes; ++lane)
          if ((mask >> lane & 1) && !inside(at[lane], bytes, 0, block.grid.shared_bytes)) illegal(lane);
      const auto base = reinterpret_cast<uint64_t>(block.shared());
      for (unsigned lane = 0; lane < kLanes; ++lane) at[lane] += base;
      return;
    }
    case Memory::local:
    case Memory::frame: {
      const uint64_t base = op.memory == Memory::frame ? warp.frame().base : 0;
      const unsigned first = std::countr_zero(mask);
      for (unsigned lane = 0; lane < kLanes; ++lane) {
        at[lane] += base;
        const bool active = mask >> lane & 1;
        if (active && !inside(at[lane], bytes, 0, warp.stack_bytes())) illegal(lane);
        at[lane] += reinterpret_cast<uint64_t>(warp.stack(active ? lane : first));
      }
      return;
    }
    case Memory::parameter: {
      const auto base = reinterpret_cast<uint64_t>(block.grid.launch.parameters);
      for (unsigned lane = 0; lane < kLanes; ++lane) {
        if ((mask >> lane & 1) && !inside(at[lane], bytes, 0, block.grid.kernel.parameter_bytes)) illegal(lane);
        at[lane] += base;
      }
      return;
    }
    case Memory::generic:
    case Memory::global: {
      const MemoryCheck::Range& recent = block.worker.recent;
      if (all_inside(at, bytes, recent.base, recent.size) && (!write || recent.writable)) return;
      for (unsigned lane = 0; lane < kLanes; ++lane)
        if ((mask >> lane & 1) && !host_place(warp, lane, at[lane], bytes, write)) illegal(lane);
      return;
    }
  }
}

}  // namespace sim::exec
