// How long at least one of many intervals lasted: their union, in bounded memory.
//
// Intervals come in any order. The latest some hundred thousand are kept as they are; what is older is folded into
// slices of time, of each of which only its covered part is known. An interval that comes after that (a kernel that ran
// for minutes while others came and went) counts exactly but for the slices at its ends, which are small against it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace torpor::cupti {

// The covered part of each slice of the past. All times in nanoseconds.
class Slices {
 public:
  // `start` < `end`, and nothing there is covered yet.
  void add(std::uint64_t start, std::uint64_t end) { cover(start, end, true); }
  // What is covered in the slices already may be covered there, too: where both are parts of a slice, chance decides.
  void add_late(std::uint64_t start, std::uint64_t end) { cover(start, end, false); }
  std::uint64_t total() const { return total_; }

 private:
  void cover(std::uint64_t start, std::uint64_t end, bool free);
  void reach(std::uint64_t start, std::uint64_t end);
  void coarsen();

  std::uint64_t base_ = 0, width_ = std::uint64_t{1} << 20, total_ = 0;
  std::vector<std::uint64_t> covered_;
};

class Coverage {
 public:
  // Intervals that are kept as they are, at most.
  explicit Coverage(std::size_t most = std::size_t{1} << 19) : most_(most) {}

  // `start` < `end`. Throws std::bad_alloc.
  void add(std::uint64_t start, std::uint64_t end);
  std::uint64_t total();

 private:
  struct Interval {
    std::uint64_t start, end;
  };
  void settle();

  std::size_t most_;
  std::vector<Interval> kept_;   // in order, apart from each other, none before the horizon
  std::vector<Interval> fresh_;  // as they came
  std::uint64_t horizon_ = 0;    // what lies before is in the slices
  Slices past_;
};

}  // namespace torpor::cupti
