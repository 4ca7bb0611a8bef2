// How a call fails: bodies throw a Failure, the entry of the exported symbol turns it into its CUresult.
// No Failure ever leaves the library.
#pragma once

#include "abi.h"

namespace sim {

struct Failure {
  CUresult status;
};

[[noreturn]] inline void fail(CUresult status) { throw Failure{status}; }

inline void require(bool condition, CUresult status = CUDA_ERROR_INVALID_VALUE) {
  if (!condition) fail(status);
}

}  // namespace sim
