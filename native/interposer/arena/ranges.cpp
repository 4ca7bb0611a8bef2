#include "ranges.h"

#include <iterator>

namespace torpor::arena {

Ranges::Ranges(std::uint64_t base, std::uint64_t size, std::uint64_t grain) : base_(base), size_(size), grain_(grain) {
  if (size > 0) insert(base, size);
}

std::uint64_t Ranges::rounded(std::uint64_t size) const { return (size + grain_ - 1) & ~(grain_ - 1); }

void Ranges::insert(std::uint64_t start, std::uint64_t size) {
  by_start_.emplace(start, size);
  by_size_.emplace(size, start);
  free_ += size;
}

void Ranges::erase(std::map<std::uint64_t, std::uint64_t>::iterator part) {
  free_ -= part->second;
  by_size_.erase({part->second, part->first});
  by_start_.erase(part);
}

std::optional<std::uint64_t> Ranges::take(std::uint64_t size) {
  const std::uint64_t wanted = rounded(size);
  if (wanted == 0 || wanted < size) return std::nullopt;
  const auto best = by_size_.lower_bound({wanted, 0});
  if (best == by_size_.end()) return std::nullopt;
  const auto [found, start] = *best;
  erase(by_start_.find(start));
  if (found > wanted) insert(start + wanted, found - wanted);
  return start;
}

void Ranges::give(std::uint64_t start, std::uint64_t size) {
  std::uint64_t length = rounded(size);
  const auto after = by_start_.lower_bound(start);
  if (after != by_start_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == start) {
      start = before->first;
      length += before->second;
      erase(before);
    }
  }
  if (after != by_start_.end() && after->first == start + length) {
    length += after->second;
    erase(after);
  }
  insert(start, length);
}

}  // namespace torpor::arena
