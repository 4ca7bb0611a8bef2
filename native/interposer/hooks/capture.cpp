// Counting streams under capture: a checkpoint then would lose the half-built graph, and some calls are forbidden.
#include <atomic>
#include <mutex>

#include "../arena/pools.h"
#include "../generated/hooks.h"
#include "../generated/real.h"
#include "../prim/thread.h"
#include "../vm/forget.h"
#include "capture_hold.h"
#include "residual_key.h"

namespace real = torpor::real;

namespace torpor::residual {
namespace {

// The per-thread default stream is another stream in each thread.
std::uint64_t stream_key(CUstream stream, bool per_thread_default) {
  const bool own = stream == CU_STREAM_PER_THREAD || (stream == nullptr && per_thread_default);
  return own ? std::uint64_t{1} << 63 | thread::serial() : key(stream);
}

constexpr std::uint64_t kLongestHold = 5'000'000'000;  // nanoseconds
constexpr long kLookEvery = 50;                           // microseconds

constinit std::atomic<std::uint32_t> context_waits{0};

void let_waits_end() {
  if (context_waits.load() == 0) return;
  const std::uint64_t end = thread::monotonic_nanoseconds() + kLongestHold;
  while (context_waits.load() != 0 && thread::monotonic_nanoseconds() < end) thread::sleep_microseconds(kLookEvery);
}

template <typename Begin>
CUresult begun(Begin begin, CUstream stream, bool per_thread_default = false) {
  vm::merging::forget();
  const std::unique_lock hold(beginning_of_captures());
  let_waits_end();
  const CUresult result = begin();
  if (result != CUDA_SUCCESS) return result;
  add(Kind::capture, stream_key(stream, per_thread_default));
  vm::forget_waits();
  return result;
}

// An invalidated capture ends with an error; whether a failed end left one running is for the driver to say.
template <typename IsCapturing>
CUresult ended(CUresult result, CUstream stream, IsCapturing is_capturing, bool per_thread_default = false) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const bool over = result == CUDA_SUCCESS || is_capturing(stream, &status) != CUDA_SUCCESS ||
                    status == CU_STREAM_CAPTURE_STATUS_NONE;
  if (over) remove(Kind::capture, stream_key(stream, per_thread_default));
  return result;
}

constinit std::atomic<bool> cut_short{false};

CUresult destroyed(CUstream stream, CUresult (*destroy)(CUstream)) {
  vm::forget_stream(stream);
  arena::pools::stream_ends(stream);
  if (contains(Kind::capture, key(stream))) cut_short.store(true);
  return forgotten(destroy(stream), Kind::capture, stream);
}

}  // namespace
}  // namespace torpor::residual

std::shared_mutex& torpor::beginning_of_captures() {
  static auto* const instance = new std::shared_mutex;
  return *instance;
}

torpor::ContextWait::ContextWait() {
  const std::shared_lock hold(beginning_of_captures());
  allowed_ = active_captures() == 0;
  if (allowed_) residual::context_waits.fetch_add(1);
}

torpor::ContextWait::~ContextWait() {
  if (allowed_) residual::context_waits.fetch_sub(1);
}

bool torpor::captures_unclear() {
  return active_captures() > 0 || residual::cut_short.load(std::memory_order_relaxed);
}

using torpor::residual::begun;
using torpor::residual::destroyed;
using torpor::residual::ended;

extern "C" CUresult torpor_hook_cuStreamBeginCapture(CUstream hStream) {
  return begun([&] { return real::cuStreamBeginCapture(hStream); }, hStream);
}

extern "C" CUresult torpor_hook_cuStreamBeginCapture_ptsz(CUstream hStream) {
  return begun([&] { return real::cuStreamBeginCapture_ptsz(hStream); }, hStream, true);
}

extern "C" CUresult torpor_hook_cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode) {
  return begun([&] { return real::cuStreamBeginCapture_v2(hStream, mode); }, hStream);
}

extern "C" CUresult torpor_hook_cuStreamBeginCapture_v2_ptsz(CUstream hStream, CUstreamCaptureMode mode) {
  return begun([&] { return real::cuStreamBeginCapture_v2_ptsz(hStream, mode); }, hStream, true);
}

extern "C" CUresult torpor_hook_cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph,
                                                            const CUgraphNode* dependencies,
                                                            const CUgraphEdgeData* dependencyData,
                                                            size_t numDependencies, CUstreamCaptureMode mode) {
  return begun(
      [&] { return real::cuStreamBeginCaptureToGraph(hStream, hGraph, dependencies, dependencyData, numDependencies, mode); }, hStream);
}

extern "C" CUresult torpor_hook_cuStreamBeginCaptureToGraph_ptsz(CUstream hStream, CUgraph hGraph,
                                                                 const CUgraphNode* dependencies,
                                                                 const CUgraphEdgeData* dependencyData,
                                                                 size_t numDependencies, CUstreamCaptureMode mode) {
  return begun(
      [&] { return real::cuStreamBeginCaptureToGraph_ptsz(hStream, hGraph, dependencies, dependencyData, numDependencies, mode); }, hStream, true);
}

extern "C" CUresult torpor_hook_cuStreamEndCapture(CUstream hStream, CUgraph* phGraph) {
  return ended(real::cuStreamEndCapture(hStream, phGraph), hStream, real::cuStreamIsCapturing);
}

extern "C" CUresult torpor_hook_cuStreamEndCapture_ptsz(CUstream hStream, CUgraph* phGraph) {
  return ended(real::cuStreamEndCapture_ptsz(hStream, phGraph), hStream, real::cuStreamIsCapturing_ptsz, true);
}

extern "C" CUresult torpor_hook_cuStreamDestroy(CUstream hStream) {
  return destroyed(hStream, real::cuStreamDestroy);
}

extern "C" CUresult torpor_hook_cuStreamDestroy_v2(CUstream hStream) {
  return destroyed(hStream, real::cuStreamDestroy_v2);
}
