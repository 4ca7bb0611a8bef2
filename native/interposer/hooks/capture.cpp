// Counting streams under capture: a checkpoint then would lose the half-built graph, and some calls are forbidden.
#include "../generated/hooks.h"
#include "../generated/real.h"
#include "../prim/thread.h"
#include "residual_key.h"

namespace real = torpor::real;

namespace torpor::residual {
namespace {

// The per-thread default stream is another stream in each thread.
std::uint64_t stream_key(CUstream stream, bool per_thread_default) {
  const bool own = stream == CU_STREAM_PER_THREAD || (stream == nullptr && per_thread_default);
  return own ? std::uint64_t{1} << 63 | static_cast<std::uint32_t>(thread::id()) : key(stream);
}

CUresult begun(CUresult result, CUstream stream, bool per_thread_default = false) {
  if (result == CUDA_SUCCESS) add(Kind::capture, stream_key(stream, per_thread_default));
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

}  // namespace
}  // namespace torpor::residual

using torpor::residual::begun;
using torpor::residual::ended;
using torpor::residual::forgotten;
using torpor::residual::Kind;

extern "C" CUresult torpor_hook_cuStreamBeginCapture(CUstream hStream) {
  return begun(real::cuStreamBeginCapture(hStream), hStream);
}

extern "C" CUresult torpor_hook_cuStreamBeginCapture_ptsz(CUstream hStream) {
  return begun(real::cuStreamBeginCapture_ptsz(hStream), hStream, true);
}

extern "C" CUresult torpor_hook_cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode) {
  return begun(real::cuStreamBeginCapture_v2(hStream, mode), hStream);
}

extern "C" CUresult torpor_hook_cuStreamBeginCapture_v2_ptsz(CUstream hStream, CUstreamCaptureMode mode) {
  return begun(real::cuStreamBeginCapture_v2_ptsz(hStream, mode), hStream, true);
}

extern "C" CUresult torpor_hook_cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph,
                                                            const CUgraphNode* dependencies,
                                                            const CUgraphEdgeData* dependencyData,
                                                            size_t numDependencies, CUstreamCaptureMode mode) {
  return begun(
      real::cuStreamBeginCaptureToGraph(hStream, hGraph, dependencies, dependencyData, numDependencies, mode), hStream);
}

extern "C" CUresult torpor_hook_cuStreamBeginCaptureToGraph_ptsz(CUstream hStream, CUgraph hGraph,
                                                                 const CUgraphNode* dependencies,
                                                                 const CUgraphEdgeData* dependencyData,
                                                                 size_t numDependencies, CUstreamCaptureMode mode) {
  return begun(
      real::cuStreamBeginCaptureToGraph_ptsz(hStream, hGraph, dependencies, dependencyData, numDependencies, mode),
      hStream, true);
}

extern "C" CUresult torpor_hook_cuStreamEndCapture(CUstream hStream, CUgraph* phGraph) {
  return ended(real::cuStreamEndCapture(hStream, phGraph), hStream, real::cuStreamIsCapturing);
}

extern "C" CUresult torpor_hook_cuStreamEndCapture_ptsz(CUstream hStream, CUgraph* phGraph) {
  return ended(real::cuStreamEndCapture_ptsz(hStream, phGraph), hStream, real::cuStreamIsCapturing_ptsz, true);
}

extern "C" CUresult torpor_hook_cuStreamDestroy(CUstream hStream) {
  return forgotten(real::cuStreamDestroy(hStream), Kind::capture, hStream);
}

extern "C" CUresult torpor_hook_cuStreamDestroy_v2(CUstream hStream) {
  return forgotten(real::cuStreamDestroy_v2(hStream), Kind::capture, hStream);
}
