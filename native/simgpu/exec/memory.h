// From the addresses of a program to places in this process, checked.
#pragma once

#include <cstdint>

#include "exec/block.h"

namespace sim::exec {

// `size` bytes at a generic address of one lane; null when they are not the program's to touch.
std::byte* host_place(Warp& warp, unsigned lane, uint64_t address, unsigned size, bool write = false);

// Where each lane of the warp's mask accesses `bytes` bytes by `op` (a = base, immediate = offset, memory = space).
// Lanes outside the mask get the place of a lane inside. Ends the launch when an access is illegal or misaligned.
struct Places {
  alignas(64) uint64_t at[kLanes];
};
void find_places(Warp& warp, const Op& op, unsigned bytes, bool write, Places& out);

}  // namespace sim::exec
