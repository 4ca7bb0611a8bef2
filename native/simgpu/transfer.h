// Copies and fills: checked and resolved when they are asked for, carried out when their stream gets to them.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "address_map.h"
#include "context.h"

namespace sim {

// What an address in a copy may be.
enum class Side {
  device,  // must be known to the driver
  host,    // the program's word is taken for memory that the driver does not know
  either,  // decided by what the address is, as unified addressing does
};

// One end of a transfer: `rows` × `layers` pieces of `width` bytes.
struct Region {
  uint64_t address = 0;
  uint64_t pitch = 0;  // bytes from row to row
  uint64_t slice = 0;  // bytes from layer to layer
  Side side = Side::either;
};

struct Extent {
  uint64_t width = 0, rows = 1, layers = 1;
  uint64_t bytes() const { return width * rows * layers; }
};

struct Fill {
  uint32_t value;
  unsigned element;  // bytes: 1, 2 or 4
};

// Whether the call returns before the work is done.
enum class Return { after, at_once };

// Throws CUDA_ERROR_INVALID_VALUE when an end is not where it says, or not accessible from the current context's
// device. Copies that involve memory which is not pinned wait even if `at_once`, as the driver's do.
void copy(const Region& to, const Region& from, const Extent& extent, CUstream stream, DefaultStream zero, Return when);
void fill(const Region& to, const Extent& extent, Fill with, CUstream stream, DefaultStream zero, Return when);

struct Transfer {
  Region to, from;
  Extent extent;
};
// Checked and resolved against the memory of now, to be run in a stream. Under the process lock. Throws as `copy` does.
std::function<void(Stream&)> resolved(const Transfer& transfer, const Device& user);
std::function<void(Stream&)> resolved(const CUDA_MEMSET_NODE_PARAMS& fill, const Device& user);

}  // namespace sim
