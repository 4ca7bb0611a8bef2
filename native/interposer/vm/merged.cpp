#include "merged.h"

#include <algorithm>
#include <cstring>

#include "../generated/real.h"
#include "defer.h"
#include "launch.h"
#include "memory_work.h"

namespace torpor::vm {
namespace {

constexpr std::uint32_t kMostBytes = 4096;  // of parameters that are kept for comparison
constexpr std::uint64_t kMostMoved = 64 << 10;  // by a fill or a copy: with more the call is not what takes the time

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

// Bytes of what a fill repeats; 0 for anything else.
std::uint32_t element_of(const Item& item) {
  return item.run == fill_8 ? 1 : item.run == fill_16 ? 2 : item.run == fill_32 ? 4 : 0;
}

bool copies(const Item& item, Work& work) {
  if (item.run == copy_within) return work = Work::copy_within, true;
  if (item.run == copy_in) return work = Work::copy_in, true;
  return item.run == copy_out && (work = Work::copy_out, true);
}

// What differs from one time to the next.
std::span<const std::byte> values_of(const Item& item) {
  if (item.run == launch) return {item.parameters, item.parameter_bytes};
  return {item.arguments, element_of(item) != 0 ? sizeof(Fill) : sizeof(Copy)};
}

template <typename Arguments>
Arguments as(const std::vector<std::byte>& values) {
  Arguments arguments;
  std::memcpy(&arguments, values.data(), sizeof arguments);
  return arguments;
}

CUDA_MEMSET_NODE_PARAMS fill_of(const Step& step, const std::vector<std::byte>& values) {
  const auto it = as<Fill>(values);
  return {it.to, 0, static_cast<unsigned>(it.value), step.element, it.count, 1};
}

CUDA_MEMCPY3D copy_of(const Step& step, const std::vector<std::byte>& values) {
  const auto it = as<Copy>(values);
  CUDA_MEMCPY3D to{};
  to.srcMemoryType = step.work == Work::copy_in ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  to.srcHost = step.work == Work::copy_in ? reinterpret_cast<const void*>(it.from) : nullptr;
  to.srcDevice = step.work == Work::copy_in ? 0 : it.from;
  to.dstMemoryType = step.work == Work::copy_out ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  to.dstHost = step.work == Work::copy_out ? reinterpret_cast<void*>(it.to) : nullptr;
  to.dstDevice = step.work == Work::copy_out ? 0 : it.to;
  to.WidthInBytes = it.bytes, to.Height = 1, to.Depth = 1;
  return to;
}

}  // namespace

bool step_of(const Item& item, Step& out) {
  out = {};
  out.context = item.context;
  if (item.run == launch) {
    const auto it = arguments_of<Launch>(item);
    out.stream = it.stream, out.function = it.function, out.grid = it.grid, out.block = it.block;
    out.shared_bytes = it.shared_bytes;
    out.parameter_bytes = static_cast<std::uint32_t>(item.parameter_bytes);
    return item.parameter_bytes <= kMostBytes && it.attribute_count == 0;
  }
  if ((out.element = element_of(item)) != 0) {
    const auto it = arguments_of<Fill>(item);
    out.work = Work::fill, out.stream = it.stream, out.bytes = it.count * out.element;
    return out.bytes <= kMostMoved;
  }
  if (!copies(item, out.work)) return false;
  const auto it = arguments_of<Copy>(item);
  out.stream = it.stream;
  // What comes of a copy onto itself is for the driver to say.
  const std::uint64_t apart = std::max(it.to, it.from) - std::min(it.to, it.from);
  return it.bytes <= kMostMoved && (out.work != Work::copy_within || apart >= it.bytes);
}

CUDA_KERNEL_NODE_PARAMS Merged::launch_of(std::size_t step) {
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

CUresult Merged::add(std::size_t step, CUgraphNode& node) {
  const Step& what = steps_[step];
  const CUgraphNode* const before = nodes_.empty() ? nullptr : &nodes_.back();
  const std::size_t count = nodes_.empty() ? 0 : 1;
  if (what.work == Work::launch) {
    const CUDA_KERNEL_NODE_PARAMS parameters = launch_of(step);
    return real::cuGraphAddKernelNode_v2(&node, graph_, before, count, &parameters);
  }
  if (what.work == Work::fill) {
    const CUDA_MEMSET_NODE_PARAMS parameters = fill_of(what, values_[step]);
    return real::cuGraphAddMemsetNode(&node, graph_, before, count, &parameters, what.context);
  }
  const CUDA_MEMCPY3D parameters = copy_of(what, values_[step]);
  return real::cuGraphAddMemcpyNode(&node, graph_, before, count, &parameters, what.context);
}

CUresult Merged::set(std::size_t step) {
  const Step& what = steps_[step];
  if (what.work == Work::launch) {
    const CUDA_KERNEL_NODE_PARAMS parameters = launch_of(step);
    return real::cuGraphExecKernelNodeSetParams_v2(ready_, nodes_[step], &parameters);
  }
  if (what.work == Work::fill) {
    const CUDA_MEMSET_NODE_PARAMS parameters = fill_of(what, values_[step]);
    return real::cuGraphExecMemsetNodeSetParams(ready_, nodes_[step], &parameters, what.context);
  }
  const CUDA_MEMCPY3D parameters = copy_of(what, values_[step]);
  return real::cuGraphExecMemcpyNodeSetParams(ready_, nodes_[step], &parameters, what.context);
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
  for (const Step& step : steps_) kernels_.push_back(step.work == Work::launch && is_kernel(step.function));
  values_.resize(steps_.size());
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const auto values = values_of(items(static_cast<std::uint32_t>(i)));
    values_[i].assign(values.begin(), values.end());
    CUgraphNode node = nullptr;
    if (add(i, node) != CUDA_SUCCESS) return false;
    nodes_.push_back(node);
  }
  CUgraphExec ready = nullptr;
  if (real::cuGraphInstantiateWithFlags(&ready, graph_, 0) != CUDA_SUCCESS) return false;
  ready_ = ready;
  return true;
}

bool Merged::update(const Items& items) {
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const auto values = values_of(items(static_cast<std::uint32_t>(i)));
    if (std::ranges::equal(values_[i], values)) continue;
    std::ranges::copy(values, values_[i].begin());
    if (set(i) != CUDA_SUCCESS) return false;
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
