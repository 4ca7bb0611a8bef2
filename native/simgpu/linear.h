// Device memory that belongs to one process: what cuMemAlloc and the pools give out.
#pragma once

#include "address_map.h"

namespace sim {

struct Process;

// `size` bytes of zeroes on `device`, entered into the address map, gone with `context` (null: with the process).
// Throws CUDA_ERROR_OUT_OF_MEMORY. Under the process lock.
AllocationRef make_linear(Process& self, Kind kind, Device& device, Context* context, uint64_t size);

// Memory of the program's own address space that the device can reach: managed and host memory. Not booked.
AllocationRef make_reachable(Process& self, Kind kind, Context& context, uint64_t size, unsigned flags);

}  // namespace sim
