#include "merged.h"

#include <cstring>

#include "../generated/real.h"
#include "defer.h"
#include "launch.h"

namespace torpor::vm {
namespace {

constexpr std::uint32_t kMostBytes = 4096;  // of parameters that are kept for comparison

// A launch takes a library's kernel in place of a function; a node wants to know which it is.
bool is_kernel(CUfunction function) {
  int value = 0;
  return real::cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, function) == CUDA_ERROR_INVALID_HANDLE;
}

// A graph's launch has its stream's priority only by an attribute of its own.
bool has_priority(CUstream stream) {
  int priority = 0;
  return real::cuStreamGetPriority(stream, &priority) != CUDA_SUCCESS || priority != 0;
}

}  // namespace

bool step_of(const Item& item, Step& out) {
  if (item.run != launch || item.parameter_bytes > kMostBytes) return false;
  const auto it = arguments_of<Launch>(item);
  if (it.attribute_count != 0) return false;
  out = {item.context, it.stream, it.function, it.grid, it.block, it.shared_bytes,
         static_cast<std::uint32_t>(item.parameter_bytes)};
  return true;
}

CUDA_KERNEL_NODE_PARAMS Merged::parameters_of(std::size_t step) {
  const Step& from = steps_[step];
  CUDA_KERNEL_NODE_PARAMS to{};
  if (kernels_[step]) {
    to.kern = reinterpret_cast<CUkernel>(from.function);
    to.ctx = from.context;
  } else {
    to.func = from.function;
  }
  to.gridDimX = from.grid[0], to.gridDimY = from.grid[1], to.gridDimZ = from.grid[2];
  to.blockDimX = from.block[0], to.blockDimY = from.block[1], to.blockDimZ = from.block[2];
  to.sharedMemBytes = from.shared_bytes;
  bytes_ = from.parameter_bytes;
  if (bytes_ == 0) return to;
  extra_[0] = CU_LAUNCH_PARAM_BUFFER_POINTER, extra_[1] = values_[step].data();
  extra_[2] = CU_LAUNCH_PARAM_BUFFER_SIZE, extra_[3] = &bytes_;
  extra_[4] = CU_LAUNCH_PARAM_END;
  to.extra = extra_;
  return to;
}

// Another thread may just begin a capture, in which it forbids such calls to all threads that do not ask for them.
bool Merged::build(const Items& items) {
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  if (real::cuThreadExchangeStreamCaptureMode(&mode) != CUDA_SUCCESS) return false;
  const bool built = make(items);
  return real::cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS && built;
}

bool Merged::make(const Items& items) {
  if (has_priority(steps_.front().stream) || real::cuGraphCreate(&graph_, 0) != CUDA_SUCCESS) return false;
  for (const Step& step : steps_) kernels_.push_back(is_kernel(step.function));
  values_.resize(steps_.size());
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const Item& item = items(static_cast<std::uint32_t>(i));
    values_[i].assign(item.parameters, item.parameters + item.parameter_bytes);
    const CUDA_KERNEL_NODE_PARAMS parameters = parameters_of(i);
    CUgraphNode node = nullptr;
    const CUresult result = real::cuGraphAddKernelNode_v2(&node, graph_, nodes_.empty() ? nullptr : &nodes_.back(),
                                                          nodes_.empty() ? 0 : 1, &parameters);
    if (result != CUDA_SUCCESS) return false;
    nodes_.push_back(node);
  }
  CUgraphExec ready = nullptr;
  if (real::cuGraphInstantiateWithFlags(&ready, graph_, 0) != CUDA_SUCCESS) return false;
  ready_ = ready;
  return true;
}

bool Merged::update(const Items& items) {
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const Item& item = items(static_cast<std::uint32_t>(i));
    if (std::memcmp(values_[i].data(), item.parameters, item.parameter_bytes) == 0) continue;
    std::memcpy(values_[i].data(), item.parameters, item.parameter_bytes);
    const CUDA_KERNEL_NODE_PARAMS parameters = parameters_of(i);
    if (real::cuGraphExecKernelNodeSetParams_v2(ready_, nodes_[i], &parameters) != CUDA_SUCCESS) return false;
  }
  return true;
}

bool Merged::launch() const { return real::cuGraphLaunch(ready_, steps_.front().stream) == CUDA_SUCCESS; }

void Merged::destroy() {
  if (graph_ == nullptr) return;
  CUcontext same = nullptr;
  const bool entered = real::cuCtxPushCurrent_v2(steps_.front().context) == CUDA_SUCCESS;
  if (ready_ != nullptr) real::cuGraphExecDestroy(ready_);
  real::cuGraphDestroy(graph_);
  if (entered) real::cuCtxPopCurrent_v2(&same);
  ready_ = nullptr;
  graph_ = nullptr;
  nodes_.clear();
  kernels_.clear();
  values_.clear();
}

}  // namespace torpor::vm
