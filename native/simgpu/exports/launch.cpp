// Launches.
#include "entry.h"
#include "capture.h"
#include "launch.h"
#include "module.h"

using namespace sim;

namespace {

KernelOp named(CUfunction handle) {
  KernelOp op;
  op.function = launchable_of(handle);
  if (process().kernels.look(reinterpret_cast<CUkernel>(handle))) op.kernel = reinterpret_cast<CUkernel>(handle);
  return op;
}

void submit(KernelOp op, CUstream handle, DefaultStream zero) {
  std::shared_ptr<Context> context = current_context();
  std::shared_ptr<Stream> stream = context->stream(handle, zero);
  require(stream->context == &op.function->context, CUDA_ERROR_INVALID_HANDLE);
  check(op);
  capture_or_carry_out(stream, std::move(op));
}

}  // namespace

SIM_STREAM_API(cuLaunchKernel, _ptsz, change,
               (CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                unsigned shared, CUstream stream, void** parameters, void** extra),
               (function, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra)) {
  KernelOp op = named(function);
  op.grid = {gx, gy, gz};
  op.block = {bx, by, bz};
  op.shared = shared;
  op.parameters = parameters_of(*op.function, parameters, extra);
  submit(std::move(op), stream, zero);
}

SIM_STREAM_API(cuLaunchCooperativeKernel, _ptsz, change,
               (CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                unsigned shared, CUstream stream, void** parameters),
               (function, gx, gy, gz, bx, by, bz, shared, stream, parameters)) {
  KernelOp op = named(function);
  op.grid = {gx, gy, gz};
  op.block = {bx, by, bz};
  op.shared = shared;
  op.cooperative = true;
  op.parameters = parameters_of(*op.function, parameters, nullptr);
  submit(std::move(op), stream, zero);
}

SIM_STREAM_API(cuLaunchKernelEx, _ptsz, change,
               (const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra),
               (config, function, parameters, extra)) {
  require(config != nullptr);
  KernelOp op = named(function);
  op.grid = {config->gridDimX, config->gridDimY, config->gridDimZ};
  op.block = {config->blockDimX, config->blockDimY, config->blockDimZ};
  op.shared = config->sharedMemBytes;
  apply_attributes(op, config->attrs, config->numAttrs);
  op.parameters = parameters_of(*op.function, parameters, extra);
  submit(std::move(op), config->hStream, zero);
}
