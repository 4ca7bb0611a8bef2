// The one thing that every other call has to know of deferred work: it goes first.
#pragma once

#include <atomic>

#include "../../abi/cuda_driver.h"

namespace torpor::vm {
namespace detail {

extern std::atomic<bool> unsettled;
CUresult settle_slowly();
void flush_slowly();

}  // namespace detail

// Waits until the driver has everything that was deferred before this call. Returns the error of a deferred call that no
// call has returned yet. One load while nothing is deferred.
inline CUresult settle() {
  if (!detail::unsettled.load(std::memory_order_acquire)) [[likely]] return CUDA_SUCCESS;
  return detail::settle_slowly();
}

// The same for a call that has to happen whatever went wrong before it: an error waits for the next call.
inline void flush() {
  if (detail::unsettled.load(std::memory_order_acquire)) [[unlikely]] detail::flush_slowly();
}

}  // namespace torpor::vm
