#include "loss.h"

#include "answers.h"
#include "forget.h"

namespace torpor::vm {
namespace {

// The driver's own list: memory errors, traps, asserts, timeouts and failing hardware.
bool loses_the_context(CUresult result) {
  switch (result) {
    case CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES:
    case CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING:
    case CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED:
    case CUDA_ERROR_PEER_ACCESS_NOT_ENABLED:
    case CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE:
    case CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED:
    case CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED:
    case CUDA_ERROR_TOO_MANY_PEERS:
    case CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE:
      return false;
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
      return true;
    default:
      return result >= CUDA_ERROR_ILLEGAL_ADDRESS && result <= CUDA_ERROR_LAUNCH_FAILED;
  }
}

}  // namespace

namespace detail {

void note_error(CUresult result) {
  if (!loses_the_context(result)) return;
  context_lost.store(true, std::memory_order_relaxed);
  answers::give_up();  // the driver may answer otherwise now
  forget_all();
}

}  // namespace detail

}  // namespace torpor::vm
