// The border between the driver's C interface and our C++.
#pragma once

#include <utility>

#include "../../abi/cuda_driver.h"

namespace torpor::arena {

// Runs the body of an override; nothing is thrown through the program's frames.
template <typename Body>
CUresult guarded(Body&& body) noexcept {
  try {
    return std::forward<Body>(body)();
  } catch (...) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
}

// An address that belongs to no allocation. Asking the driver about it gives its own answer for unknown pointers, which
// is what a gap between our allocations is to the program.
inline constexpr CUdeviceptr kNowhere = 1;

}  // namespace torpor::arena
