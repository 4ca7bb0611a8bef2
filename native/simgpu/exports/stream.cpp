// Streams, and work that is no copy.
#include <algorithm>

#include "capture.h"
#include "entry.h"
#include "print_buffer.h"

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
  process().streams.find(handle, CUDA_ERROR_INVALID_HANDLE)->health->check();
  std::shared_ptr<Stream> stream = process().streams.remove(handle, CUDA_ERROR_INVALID_HANDLE);
  abandon_capture(*stream);
  stream->close(false);
  stream->context->retire_stream(stream);
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
  std::shared_ptr<Context> context;
  std::shared_ptr<Stream> stream;
  {
    Section section;
    context = current_context();
    stream = context->stream(handle, zero);
    forbid_captured(*stream);
    forbid_unsafe();
    tickets = stream->context->implied_order(*stream);
    tickets.push_back(stream->last());
  }
  wait_all(tickets);
  context->prints->flush();
  stream->health->check();
}

SIM_STREAM_API(cuStreamQuery, _ptsz, query, (CUstream handle), (handle)) {
  std::shared_ptr<Stream> stream = current_context()->stream(handle, zero);
  forbid_captured(*stream);
  forbid_unsafe();
  require(stream->idle(), CUDA_ERROR_NOT_READY);
}

SIM_STREAM_API(cuStreamGetFlags, _ptsz, query, (CUstream handle, unsigned* out), (handle, out)) {
  require(out != nullptr);
  std::shared_ptr<Stream> stream = stream_of(handle, zero);
  forbid_captured(*stream);
  *out = stream->flags;
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
  capture_or_carry_out(current_context()->stream(handle, zero), HostOp{function, data});
}

SIM_STREAM_API(cuStreamAddCallback, _ptsz, change,
               (CUstream handle, CUstreamCallback function, void* data, unsigned flags),
               (handle, function, data, flags)) {
  require(function != nullptr && flags == 0);
  std::shared_ptr<Stream> stream = current_context()->stream(handle, zero);
  forbid_captured(*stream);
  auto run = [=](Stream& on) { function(handle, on.health->status(), data); };
  stream->submit({std::move(run), stream->context->implied_order(*stream)});
}

SIM_STREAM_API(cuStreamAttachMemAsync, _ptsz, change,
               (CUstream handle, CUdeviceptr address, size_t length, unsigned), (handle, address, length, 0u)) {
  stream_of(handle, zero);
  AllocationRef found = process().memory.at(address);
  require(found && found->kind == Kind::managed && length <= found->size);
}
