// Free address ranges: best fit, with neighbours joined again when they come back.
//
// Knows nothing of the driver: it hands out parts of one interval of numbers. The arena uses it twice, for the
// addresses of a reservation and for the bytes inside a slab. Not thread safe; the caller holds the lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace torpor::arena {

class Ranges {
 public:
  // The interval [base, base + size). Every size is rounded up to `grain`, a power of two; `base` and `size` must be
  // multiples of it.
  Ranges(std::uint64_t base, std::uint64_t size, std::uint64_t grain);

  // The start of a free part of at least `size` bytes, or nothing when none is left. Among the parts that fit, the
  // smallest is used; among equals, the lowest.
  std::optional<std::uint64_t> take(std::uint64_t size);

  // Returns a part that take() gave with the same size.
  void give(std::uint64_t start, std::uint64_t size);

  std::uint64_t base() const { return base_; }
  std::uint64_t size() const { return size_; }
  std::uint64_t free_bytes() const { return free_; }
  std::uint64_t largest() const { return by_size_.empty() ? 0 : by_size_.rbegin()->first; }
  bool unused() const { return free_ == size_; }
  bool contains(std::uint64_t address) const { return address - base_ < size_; }
  std::size_t parts() const { return by_start_.size(); }

 private:
  void insert(std::uint64_t start, std::uint64_t size);
  void erase(std::map<std::uint64_t, std::uint64_t>::iterator part);
  std::uint64_t rounded(std::uint64_t size) const;

  std::uint64_t base_;
  std::uint64_t size_;
  std::uint64_t grain_;
  std::uint64_t free_ = 0;
  std::map<std::uint64_t, std::uint64_t> by_start_;            // start -> size
  std::set<std::pair<std::uint64_t, std::uint64_t>> by_size_;  // (size, start)
};

}  // namespace torpor::arena
