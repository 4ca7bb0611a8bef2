// How many blocks of a kernel a multiprocessor holds.
#pragma once

#include <cstddef>

#include "module.h"

namespace sim {

// Blocks of `threads` threads and `dynamic_shared` bytes that fit into one multiprocessor at once; 0 when not even one.
unsigned blocks_that_fit(const Function& function, unsigned threads, size_t dynamic_shared);

// The same for all multiprocessors of the function's device.
unsigned blocks_on_device(const Function& function, unsigned threads, size_t dynamic_shared);

unsigned processors(const Device& device);

}  // namespace sim
