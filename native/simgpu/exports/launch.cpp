// Launches, and those in steps: the calls of early CUDA, which set up a function piece by piece (PyCUDA makes some).
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

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

// What was set up for a function. Under the process lock; for ever, as functions are told apart by identity.
struct SetUp {
  std::array<uint32_t, 3> block{1, 1, 1};
  uint32_t shared = 0;
  std::vector<std::byte> parameters;
};

constexpr size_t most_parameters = 4096;  // bytes

SetUp& set_up_of(const std::shared_ptr<Function>& function) {
  using Functions = std::map<std::weak_ptr<Function>, SetUp, std::owner_less<>>;
  static auto* const all = new Functions;
  return (*all)[function];
}

void put_parameter(CUfunction handle, int offset, const void* value, size_t size) {
  require(offset >= 0 && static_cast<size_t>(offset) + size <= most_parameters && (value != nullptr || size == 0));
  std::vector<std::byte>& parameters = set_up_of(launchable_of(handle)).parameters;
  if (parameters.size() < offset + size) parameters.resize(offset + size);
  if (size != 0) std::memcpy(parameters.data() + offset, value, size);
}

void launch_as_set_up(CUfunction handle, int width, int height, CUstream stream) {
  require(width > 0 && height > 0);
  KernelOp op = named(handle);
  SetUp& made = set_up_of(op.function);
  op.grid = {static_cast<uint32_t>(width), static_cast<uint32_t>(height), 1};
  op.block = made.block;
  op.shared = made.shared;
  size_t size = made.parameters.size();
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, made.parameters.data(), CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                   CU_LAUNCH_PARAM_END};
  op.parameters = parameters_of(*op.function, nullptr, size != 0 ? extra : nullptr);
  submit(std::move(op), stream, DefaultStream::legacy);
}

}  // namespace

SIM_API(cuFuncSetBlockShape, change, (CUfunction function, int x, int y, int z), (function, x, y, z)) {
  require(x > 0 && y > 0 && z > 0 && int64_t{x} * y * z <= 1024);
  set_up_of(launchable_of(function)).block = {static_cast<uint32_t>(x), static_cast<uint32_t>(y),
                                              static_cast<uint32_t>(z)};
}

SIM_API(cuFuncSetSharedSize, change, (CUfunction function, unsigned bytes), (function, bytes)) {
  set_up_of(launchable_of(function)).shared = bytes;
}

SIM_API(cuParamSetSize, change, (CUfunction function, unsigned bytes), (function, bytes)) {
  require(bytes <= most_parameters);
  set_up_of(launchable_of(function)).parameters.resize(bytes);
}

SIM_API(cuParamSeti, change, (CUfunction function, int offset, unsigned value), (function, offset, value)) {
  put_parameter(function, offset, &value, sizeof value);
}

SIM_API(cuParamSetf, change, (CUfunction function, int offset, float value), (function, offset, value)) {
  put_parameter(function, offset, &value, sizeof value);
}

SIM_API(cuParamSetv, change, (CUfunction function, int offset, void* value, unsigned bytes),
        (function, offset, value, bytes)) {
  put_parameter(function, offset, value, bytes);
}

SIM_API(cuLaunch, change, (CUfunction function), (function)) { launch_as_set_up(function, 1, 1, nullptr); }

SIM_API(cuLaunchGrid, change, (CUfunction function, int width, int height), (function, width, height)) {
  launch_as_set_up(function, width, height, nullptr);
}

SIM_API(cuLaunchGridAsync, change, (CUfunction function, int width, int height, CUstream stream),
        (function, width, height, stream)) {
  launch_as_set_up(function, width, height, stream);
}

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
