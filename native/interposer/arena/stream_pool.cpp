#include "stream_pool.h"

#include <algorithm>

namespace torpor::arena {
namespace {

std::uint64_t rounded(std::uint64_t size) { return (size + StreamPool::kGrain - 1) / StreamPool::kGrain * StreamPool::kGrain; }

}  // namespace

void StreamPool::add_block(CUdeviceptr address, std::uint64_t size) {
  blocks_.emplace(address, size);
  reserved_ += size;
  reserved_high_ = std::max(reserved_high_, reserved_);
  insert(address, {size, nullptr, 0});
}

std::vector<CUdeviceptr> StreamPool::drop_blocks(std::uint64_t keep) {
  std::vector<CUdeviceptr> out;
  for (auto block = blocks_.begin(); block != blocks_.end() && reserved_ > keep;) {
    const auto part = parts_.find(block->first);
    if (part == parts_.end() || part->second.lane != nullptr || part->second.size != block->second) {
      ++block;
      continue;
    }
    erase(part);
    reserved_ -= block->second;
    out.push_back(block->first);
    block = blocks_.erase(block);
  }
  return out;
}

std::optional<CUdeviceptr> StreamPool::take(const StreamKey& key, std::uint64_t size) {
  size = rounded(size);
  const auto fitting = [size](const auto& parts) { return parts.lower_bound({size, 0}); };
  auto found = fitting(ready_);
  std::optional<std::pair<std::uint64_t, CUdeviceptr>> best;
  if (found != ready_.end()) best = *found;
  // A part of the stream's own goes first among equals: it is of no use to others yet.
  for (auto [each, end] = lanes_.equal_range(key); each != end; ++each) {
    if (each->second.ended) continue;
    const auto own = fitting(each->second.parts);
    if (own != each->second.parts.end() && (!best || own->first <= best->first)) best = *own;
  }
  if (!best) return std::nullopt;
  const auto part = parts_.find(best->second);
  const Part whole = part->second;
  erase(part);
  if (whole.size > size) insert(best->second + size, {whole.size - size, whole.lane, whole.frees});
  used_ += size;
  used_high_ = std::max(used_high_, used_);
  return best->second;
}

StreamPool::Lane& StreamPool::give(const StreamKey& key, std::uint64_t thread, CUdeviceptr address, std::uint64_t size) {
  size = rounded(size);
  used_ -= size;
  Lane& own = lane(key);
  own.unfenced += size;
  if (thread != 0) own.thread = thread;
  own.frees = ++frees_;
  insert(address, {size, &own, own.frees});
  return own;
}

void StreamPool::give(CUdeviceptr address, std::uint64_t size) {
  size = rounded(size);
  used_ -= size;
  insert(address, {size, nullptr, 0});
}

void StreamPool::pass_context(CUcontext context, std::uint64_t frees) {
  for (auto& [key, lane] : lanes_) {
    if (key.context == context) pass(lane, frees);
  }
}

std::vector<CUevent> StreamPool::pass_all(Lane& lane) {
  std::vector<CUevent> events;
  for (const Fence& fence : lane.fences) events.push_back(fence.event);
  lane.fences.clear();
  pass(lane, lane.frees);
  lane.unfenced = 0;
  return events;
}

void StreamPool::pass(Lane& lane, std::uint64_t frees) {
  std::vector<CUdeviceptr> passed;
  for (const auto& [size, address] : lane.parts) {
    if (parts_.at(address).frees <= frees) passed.push_back(address);
  }
  for (const CUdeviceptr address : passed) {
    const auto part = parts_.find(address);
    const std::uint64_t size = part->second.size;
    erase(part);
    insert(address, {size, nullptr, 0});
  }
}

// Joins it with neighbours that are free for the same users.
void StreamPool::insert(CUdeviceptr address, Part part) {
  auto after = parts_.lower_bound(address);
  if (after != parts_.end() && after->first == address + part.size && after->second.lane == part.lane &&
      same_block(address, after->first)) {
    part.size += after->second.size;
    part.frees = std::max(part.frees, after->second.frees);
    const auto next = std::next(after);
    erase(after);
    after = next;
  }
  if (after != parts_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second.size == address && before->second.lane == part.lane &&
        same_block(before->first, address)) {
      address = before->first;
      part.size += before->second.size;
      part.frees = std::max(part.frees, before->second.frees);
      erase(before);
    }
  }
  index(part.lane).emplace(part.size, address);
  parts_.emplace(address, part);
}

void StreamPool::erase(Parts::iterator part) {
  index(part->second.lane).erase({part->second.size, part->first});
  parts_.erase(part);
}

StreamPool::Lane& StreamPool::lane(const StreamKey& key) {
  for (auto [each, end] = lanes_.equal_range(key); each != end; ++each) {
    if (!each->second.ended) return each->second;
  }
  return lanes_.emplace(key, Lane{})->second;
}

bool StreamPool::same_block(CUdeviceptr a, CUdeviceptr b) const { return blocks_.upper_bound(a) == blocks_.upper_bound(b); }

}  // namespace torpor::arena
