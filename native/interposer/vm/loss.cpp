#include "loss.h"

#include "answers.h"
#include "forget.h"

namespace torpor::vm {
namespace {

// The driver's own list: memory errors, traps, asserts, timeouts, failing hardware, a server or a device that is gone. Some
// neighbours in their numbers say less, as that the calling thread's context was destroyed. UNKNOWN is what calls on a card say
// that fell off the bus; where it means less, the driver is asked without need.
bool loses_the_context(CUresult result) {
  switch (result) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTAINED:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_TENSOR_MEMORY_LEAK:
    case CUDA_ERROR_MPS_CLIENT_TERMINATED:
    case CUDA_ERROR_EXTERNAL_DEVICE:
    case CUDA_ERROR_UNKNOWN:
      return true;
    default:
      return false;
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
