// Whether a context still works. A kernel that goes wrong breaks its context until that is destroyed: from then on its
// calls report what happened, and the work that is still queued does nothing.
#pragma once

#include <atomic>

#include "abi.h"
#include "failure.h"

namespace sim {

class Health {
 public:
  // The first reason stays.
  void break_by(CUresult reason) {
    CUresult good = CUDA_SUCCESS;
    status_.compare_exchange_strong(good, reason);
  }
  bool broken() const { return status() != CUDA_SUCCESS; }
  CUresult status() const { return status_.load(std::memory_order_acquire); }
  // Throws the reason.
  void check() const { require(!broken(), status()); }

 private:
  std::atomic<CUresult> status_ = CUDA_SUCCESS;
};

}  // namespace sim
