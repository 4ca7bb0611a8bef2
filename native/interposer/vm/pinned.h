// Host memory that the driver has pinned for the program. Forgetting some of it is always safe.
#pragma once

#include <cstddef>
#include <cstdint>

#include "../../abi/cuda_driver.h"

namespace torpor::vm::pinned {

// The number, never used twice, of the allocation that is still there and in which all of it lies; null for none. Any thread.
std::uint64_t find(const void* address, std::size_t bytes);

// It has been made in the current context, and is about to be freed: its addresses may be the program's own at once.
void note(void* address, std::size_t bytes) noexcept;
void forget(void* address);

// What was allocated in a context ends with it.
void forget_context(CUcontext context);
void forget_all();

}  // namespace torpor::vm::pinned
