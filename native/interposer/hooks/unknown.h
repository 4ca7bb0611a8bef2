// Driver entry points that a program uses and that we do not know.
#pragma once

#include <atomic>
#include <cstdint>

namespace torpor {

struct UnknownSymbols {
  static constexpr std::uint32_t kKept = 64;
  static constexpr std::uint32_t kLongest = 95;
  std::atomic<std::uint32_t> count;            // how many entries of `names` are complete, at most kKept
  std::atomic<std::uint32_t> lost;             // different or repeated names that found no room
  char names[kKept][kLongest + 1];
};

// Every name once, in the order of first use. Entries never change once counted; readable at any time.
const UnknownSymbols& unknown_symbols();

// Records a name; cut off at kLongest bytes. Allocates nothing.
void count_unknown(const char* name);

}  // namespace torpor
