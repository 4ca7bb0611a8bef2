// CUDA arrays: elements of one to four channels in up to three dimensions. Here they are rows without gaps in device memory
// that the program cannot address.
#pragma once

#include <cstdint>
#include <memory>

#include "abi.h"
#include "transfer.h"

namespace sim {

class Context;

struct Array {
  Context* const context;
  const CUDA_ARRAY3D_DESCRIPTOR described;
  uint64_t base = 0;        // of its memory
  uint64_t row = 0;         // bytes
  uint64_t rows = 1, layers = 1;

  uint64_t bytes() const { return row * rows * layers; }
};

// Throws CUDA_ERROR_INVALID_VALUE for a shape or format that cannot be, CUDA_ERROR_NOT_SUPPORTED for sparse and deferred
// arrays and packed formats, CUDA_ERROR_OUT_OF_MEMORY. Under the process lock.
CUarray make_array(Context& context, const CUDA_ARRAY3D_DESCRIPTOR& described);

// Work under way keeps the memory. Throws CUDA_ERROR_INVALID_HANDLE. Under the process lock.
void destroy_array(CUarray handle);
void destroy_arrays_of(const Context& context);

// The remaining ones need no lock. Throws CUDA_ERROR_INVALID_HANDLE.
std::shared_ptr<const Array> array_named(CUarray handle);

// The part of an array that a copy of `extent` touches; offsets are bytes, rows and layers. Throws
// CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_INVALID_VALUE when the part leaves the array.
Region region_of(CUarray handle, uint64_t x, uint64_t y, uint64_t z, const Extent& extent);

// `size` bytes of a one-dimensional array from `offset` on.
Region line_of(CUarray handle, uint64_t offset, uint64_t size);

}  // namespace sim
