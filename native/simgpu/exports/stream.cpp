// Streams, and work that is no copy.
#include <algorithm>
#include <utility>

#include "entry.h"

using namespace sim;

namespace {

constexpr int greatest_priority = -5;

std::shared_ptr<Stream> stream_of(CUstream handle, DefaultStream zero) {
  return current_context()->stream(handle, zero);
}

void create(CUstream* out, unsigned flags, int priority) {
  require(out != nullptr && (flags & ~static_cast<unsigned>(CU_STREAM_NON_BLOCKING)) == 0);
  auto stream = current_context()->make_stream(flags, std::min(0, std::max(priority, greatest_priority)));
  *out = process().streams.add(std::move(stream));
}

// Queued work still runs; the handle is gone at once.
void destroy(CUstream handle) {
  require(handle != nullptr && handle != CU_STREAM_LEGACY && handle != CU_STREAM_PER_THREAD, CUDA_ERROR_INVALID_HANDLE);
  std::shared_ptr<Stream> stream = process().streams.remove(handle, CUDA_ERROR_INVALID_HANDLE);
  stream->close(false);
  stream->context->retire_stream(stream);
}

void submit(const std::shared_ptr<Stream>& stream, std::function<void(Stream&)> run) {
  stream->submit({std::move(run), stream->context->implied_order(*stream)});
}

}  // namespace

SIM_API(cuStreamCreate, change, (CUstream* out, unsigned flags), (out, flags)) { create(out, flags, 0); }

SIM_API(cuStreamCreateWithPriority, change, (CUstream* out, unsigned flags, int priority), (out, flags, priority)) {
  create(out, flags, priority);
}

SIM_API(cuStreamDestroy_v2, change, (CUstream stream), (stream)) { destroy(stream); }
SIM_API(cuStreamDestroy, change, (CUstream stream), (stream)) { destroy(stream); }

SIM_STREAM_API(cuStreamSynchronize, _ptsz, wait, (CUstream handle), (handle)) {
  std::vector<Ticket> tickets;
  {
    Section section;
    std::shared_ptr<Stream> stream = stream_of(handle, zero);
    tickets = stream->context->implied_order(*stream);
    tickets.push_back(stream->last());
  }
  wait_all(tickets);
}

SIM_STREAM_API(cuStreamQuery, _ptsz, query, (CUstream handle), (handle)) {
  require(stream_of(handle, zero)->idle(), CUDA_ERROR_NOT_READY);
}

SIM_STREAM_API(cuStreamGetFlags, _ptsz, query, (CUstream handle, unsigned* out), (handle, out)) {
  require(out != nullptr);
  *out = stream_of(handle, zero)->flags;
}

SIM_STREAM_API(cuStreamGetPriority, _ptsz, query, (CUstream handle, int* out), (handle, out)) {
  require(out != nullptr);
  *out = stream_of(handle, zero)->priority;
}

SIM_STREAM_API(cuStreamGetId, _ptsz, query, (CUstream handle, unsigned long long* out), (handle, out)) {
  require(out != nullptr);
  *out = stream_of(handle, zero)->id;
}

SIM_STREAM_API(cuStreamGetCtx, _ptsz, query, (CUstream handle, CUcontext* out), (handle, out)) {
  require(out != nullptr);
  *out = stream_of(handle, zero)->context->handle();
}

SIM_STREAM_API(cuStreamGetCtx_v2, _ptsz, query, (CUstream handle, CUcontext* out, CUgreenCtx* green),
               (handle, out, green)) {
  require(out != nullptr);
  *out = stream_of(handle, zero)->context->handle();
  if (green != nullptr) *green = nullptr;
}

SIM_STREAM_API(cuStreamGetDevice, _ptsz, query, (CUstream handle, CUdevice* out), (handle, out)) {
  require(out != nullptr);
  *out = stream_of(handle, zero)->context->device.ordinal;
}

SIM_STREAM_API(cuLaunchHostFunc, _ptsz, change, (CUstream handle, CUhostFn function, void* data),
               (handle, function, data)) {
  require(function != nullptr);
  submit(stream_of(handle, zero), [function, data](Stream&) { function(data); });
}

SIM_STREAM_API(cuStreamAddCallback, _ptsz, change,
               (CUstream handle, CUstreamCallback function, void* data, unsigned flags),
               (handle, function, data, flags)) {
  require(function != nullptr && flags == 0);
  submit(stream_of(handle, zero), [=](Stream&) { function(handle, CUDA_SUCCESS, data); });
}

SIM_STREAM_API(cuStreamAttachMemAsync, _ptsz, change,
               (CUstream handle, CUdeviceptr address, size_t length, unsigned), (handle, address, length, 0u)) {
  stream_of(handle, zero);
  AllocationRef found = process().memory.at(address);
  require(found && found->kind == Kind::managed && length <= found->size);
}

// Nothing is ever captured here: graphs are among what is missing.

SIM_STREAM_API(cuStreamIsCapturing, _ptsz, query, (CUstream handle, CUstreamCaptureStatus* out), (handle, out)) {
  require(out != nullptr);
  stream_of(handle, zero);
  *out = CU_STREAM_CAPTURE_STATUS_NONE;
}

SIM_STREAM_API(cuStreamGetCaptureInfo, _ptsz, query, (CUstream handle, CUstreamCaptureStatus* out, cuuint64_t*),
               (handle, out, nullptr)) {
  require(out != nullptr);
  stream_of(handle, zero);
  *out = CU_STREAM_CAPTURE_STATUS_NONE;
}

SIM_STREAM_API(cuStreamGetCaptureInfo_v2, _ptsz, query,
               (CUstream handle, CUstreamCaptureStatus* out, cuuint64_t*, CUgraph*, const CUgraphNode**, size_t*),
               (handle, out, nullptr, nullptr, nullptr, nullptr)) {
  require(out != nullptr);
  stream_of(handle, zero);
  *out = CU_STREAM_CAPTURE_STATUS_NONE;
}

SIM_STREAM_API(cuStreamGetCaptureInfo_v3, _ptsz, query,
               (CUstream handle, CUstreamCaptureStatus* out, cuuint64_t*, CUgraph*, const CUgraphNode**,
                const CUgraphEdgeData**, size_t*),
               (handle, out, nullptr, nullptr, nullptr, nullptr, nullptr)) {
  require(out != nullptr);
  stream_of(handle, zero);
  *out = CU_STREAM_CAPTURE_STATUS_NONE;
}

SIM_API(cuThreadExchangeStreamCaptureMode, query, (CUstreamCaptureMode* mode), (mode)) {
  require(mode != nullptr && *mode >= CU_STREAM_CAPTURE_MODE_GLOBAL && *mode <= CU_STREAM_CAPTURE_MODE_RELAXED);
  thread_local CUstreamCaptureMode current = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::swap(*mode, current);
}
