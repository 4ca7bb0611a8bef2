// Making an imported block exportable: the driver exports only memory that this process made.
#pragma once

#include <span>

#include "arena.h"

namespace torpor::arena {

// Puts fresh memory with the same bytes at the block's address. Needs the block's size in free device memory for as
// long as this runs. Nothing else may use the block meanwhile. On failure the block is as it was.
CUresult replace_by_copy(Block& block, DeviceMemory& memory, std::span<const CUmemAccessDesc> access);

}  // namespace torpor::arena
