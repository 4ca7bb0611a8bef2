// Fills and copies in the queue: the arguments of the items, and what `run` of each is. No padding: merged.h compares them
// byte by byte.
#pragma once

#include <cstdint>

#include "queue.h"

namespace torpor::vm {

struct Fill {
  CUdeviceptr to;
  std::uint64_t count;  // of elements
  std::uint64_t value;
  std::uint64_t memory;  // see Copy
  CUstream stream;
};

// Addresses of device memory or, on one side, of pinned memory. `to_memory` and `from_memory` say which allocations these are:
// memory that is made anew at an address is another one.
struct Copy {
  std::uint64_t to, from;
  std::uint64_t bytes;
  std::uint64_t to_memory, from_memory;
  CUstream stream;
};

CUresult fill_8(Item& item);
CUresult fill_16(Item& item);
CUresult fill_32(Item& item);
CUresult copy_within(Item& item);  // the device
CUresult copy_in(Item& item);
CUresult copy_out(Item& item);

}  // namespace torpor::vm
