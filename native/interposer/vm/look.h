// Asking the driver whether an event has happened, so that waits for it can be left out afterwards.
#pragma once

#include "policy.h"
#include "queue.h"
#include "recordings.h"

namespace torpor::vm {

// Which record the question is about must be known before the queue is waited for. `ask` makes the call.
template <typename Ask>
CUresult look(CUevent event, Ask ask) {
  std::uint64_t record = 0;
  if (in_use()) {
    const Hold hold;
    record = recordings::latest(event);
  }
  if (const CUresult earlier = settle(); earlier != CUDA_SUCCESS) return earlier;
  const CUresult result = ask();
  if (result == CUDA_SUCCESS && record != 0) {
    const Hold hold;
    recordings::happened(event, record);
  }
  return result;
}

}  // namespace torpor::vm
