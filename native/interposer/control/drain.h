// Waiting, with a deadline, until every context of the process is idle.
//
// The driver has no wait with a deadline, so a thread of its own does the waiting. When a deadline passes that thread
// stays in the driver's call; the next run first waits for it.
#pragma once

#include <chrono>
#include <vector>

#include "../../abi/cuda_driver.h"

namespace torpor::control {

using Clock = std::chrono::steady_clock;

struct Drained {
  enum class End { idle, deadline, failed } end = End::idle;
  CUresult error = CUDA_SUCCESS;  // with failed: what the wait returned; the program will meet the same error
  int device = 0;                 // with failed: where
  std::vector<int> busy;          // with deadline: devices whose work was being waited for
};

// The gate is closed, and no capture is active. One call at a time.
Drained drain(Clock::time_point deadline);

}  // namespace torpor::control
