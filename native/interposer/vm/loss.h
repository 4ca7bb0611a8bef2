// Errors after which a context is of no more use: natively every later call in it says so, also those that we answer.
#pragma once

#include <atomic>

#include "../../abi/cuda_driver.h"

namespace torpor::vm {
namespace detail {

inline constinit std::atomic<bool> context_lost{false};
void note_error(CUresult result);

}  // namespace detail

// Whether a context of this process was ever lost. Then the driver must be asked where we would not.
inline bool context_was_lost() { return detail::context_lost.load(std::memory_order_relaxed); }

// Passes on what a call returned, and remembers a loss.
inline CUresult noticed(CUresult result) {
  if (result != CUDA_SUCCESS) [[unlikely]] detail::note_error(result);
  return result;
}

}  // namespace torpor::vm
