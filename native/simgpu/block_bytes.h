// The contents of a block's memfd.
#pragma once

#include <cstdint>

namespace sim {

// Copies what was ever written to the first `size` bytes; the rest of `to` must be zero already, and stays so.
// Throws CUDA_ERROR_OPERATING_SYSTEM.
void copy_written(int fd, uint64_t size, uint8_t* to);

// The reverse: writes what is not zero. Throws CUDA_ERROR_OUT_OF_MEMORY.
void write_nonzero(int fd, const uint8_t* from, uint64_t size);

}  // namespace sim
