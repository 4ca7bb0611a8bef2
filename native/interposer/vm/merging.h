// Launching sequences that repeat as graphs (`--vm full`; docs/design/merging.md).
#pragma once

#include <cstdint>

#include "merged.h"

namespace torpor::vm::merging {

// For the submitter, whose context is that of the first item, which is about to be submitted. Launches as many of the
// `waiting` items as one, if they are a known sequence, and returns their number; 0 when the first is to be submitted by itself.
std::uint32_t submit(const Items& items, std::uint32_t waiting);

// The first item was submitted by itself, which took so long.
void submitted(const Item& item, std::uint64_t nanoseconds);

// Gives up all graphs: before anything that they refer to ends or changes, and before a capture or a freeze. Any thread; what is
// in the queue goes first.
void forget();

// No merging any more in this process: something was used that a graph's kernels would not see.
void give_up();

struct Counts {
  std::uint64_t merged = 0;     // calls that went into graphs
  std::uint64_t graphs = 0;     // launches of such graphs
  std::uint64_t fallbacks = 0;  // sequences that the driver did not take as graphs
  std::uint64_t saved_ns = 0;   // of the submitter's time, against calls by themselves
};
Counts counts();

}  // namespace torpor::vm::merging
