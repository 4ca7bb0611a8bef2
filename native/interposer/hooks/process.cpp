// cuInit: what has to start once a program uses the driver.
#include <unistd.h>

#include "../control/control.h"
#include "../gate/gate.h"
#include "../generated/hooks.h"
#include "../generated/real.h"

extern "C" CUresult torpor_hook_cuInit(unsigned int Flags) {
  torpor::gate::after_fork();
  const CUresult result = torpor::real::cuInit(Flags);
  if (result == CUDA_SUCCESS) torpor::control::start();
  return result;
}
