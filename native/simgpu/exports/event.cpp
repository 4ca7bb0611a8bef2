// Events.
#include "capture.h"
#include "entry.h"
#include "print_buffer.h"

using namespace sim;

namespace {

constexpr unsigned known_flags = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;

std::shared_ptr<Event> named(CUevent handle) { return process().events.find(handle, CUDA_ERROR_INVALID_HANDLE); }

std::shared_ptr<Stream> stream_of(CUstream handle, DefaultStream zero) {
  return current_context()->stream(handle, zero);
}

void record(CUevent handle, CUstream stream_handle, DefaultStream zero, unsigned flags) {
  std::shared_ptr<Event> event = named(handle);
  std::shared_ptr<Stream> stream = stream_of(stream_handle, zero);
  require(event->context == stream->context, CUDA_ERROR_INVALID_HANDLE);
  sim::record(event, stream, (flags & CU_EVENT_RECORD_EXTERNAL) != 0);
}

void elapsed(float* out, CUevent start, CUevent end) {
  require(out != nullptr);
  std::shared_ptr<Event> first = named(start), second = named(end);
  for (Event* event : {first.get(), second.get()}) {
    require(event->capture == nullptr, CUDA_ERROR_CAPTURED_EVENT);
    require(event->recording && !(event->flags & CU_EVENT_DISABLE_TIMING), CUDA_ERROR_INVALID_HANDLE);
  }
  require(first->recording->ticket.done() && second->recording->ticket.done(), CUDA_ERROR_NOT_READY);
  int64_t nanoseconds = second->recording->nanoseconds - first->recording->nanoseconds;
  *out = static_cast<float>(static_cast<double>(nanoseconds) / 1e6);
}

void destroy(CUevent handle) { process().events.remove(handle, CUDA_ERROR_INVALID_HANDLE); }

}  // namespace

SIM_API(cuEventCreate, change, (CUevent* out, unsigned flags), (out, flags)) {
  require(out != nullptr && (flags & ~known_flags) == 0);
  require(!(flags & CU_EVENT_INTERPROCESS) || (flags & CU_EVENT_DISABLE_TIMING));
  std::shared_ptr<Context> context = current_context();
  auto event = std::make_shared<Event>(context.get(), context->health, flags);
  if (event->interprocess()) event->shared = SharedEvent::make();
  *out = process().events.add(std::move(event));
}

SIM_API(cuEventDestroy_v2, change, (CUevent handle), (handle)) { destroy(handle); }
SIM_API(cuEventDestroy, change, (CUevent handle), (handle)) { destroy(handle); }

SIM_STREAM_API(cuEventRecord, _ptsz, change, (CUevent event, CUstream stream), (event, stream)) {
  record(event, stream, zero, 0);
}

SIM_STREAM_API(cuEventRecordWithFlags, _ptsz, change, (CUevent event, CUstream stream, unsigned flags),
               (event, stream, flags)) {
  require((flags & ~static_cast<unsigned>(CU_EVENT_RECORD_EXTERNAL)) == 0);
  record(event, stream, zero, flags);
}

SIM_API(cuEventQuery, query, (CUevent handle), (handle)) {
  std::shared_ptr<Event> event = named(handle);
  event->health->check();
  forbid_captured(*event);
  forbid_unsafe();
  const bool done = event->shared ? event->shared->done() : !event->recording || event->recording->ticket.done();
  require(done, CUDA_ERROR_NOT_READY);
}

SIM_API(cuEventSynchronize, wait, (CUevent handle), (handle)) {
  Ticket ticket;
  std::shared_ptr<SharedEvent> shared;
  uint64_t number = 0;
  std::shared_ptr<Health> health;
  std::shared_ptr<PrintBuffer> prints;
  {
    Section section;
    std::shared_ptr<Event> event = named(handle);
    health = event->health;
    prints = event->context->prints;
    health->check();
    forbid_captured(*event);
    forbid_unsafe();
    shared = event->shared;
    if (shared) number = shared->latest();
    else if (event->recording) ticket = event->recording->ticket;
  }
  if (shared) shared->wait(number, [&] { return health->broken(); });
  ticket.wait();
  prints->flush();
  health->check();
}

SIM_API(cuEventElapsedTime, query, (float* out, CUevent start, CUevent end), (out, start, end)) {
  elapsed(out, start, end);
}

SIM_API(cuEventElapsedTime_v2, query, (float* out, CUevent start, CUevent end), (out, start, end)) {
  elapsed(out, start, end);
}

SIM_STREAM_API(cuStreamWaitEvent, _ptsz, change, (CUstream stream, CUevent event, unsigned flags),
               (stream, event, flags)) {
  require((flags & ~static_cast<unsigned>(CU_EVENT_WAIT_EXTERNAL)) == 0);
  wait_for(named(event), stream_of(stream, zero), (flags & CU_EVENT_WAIT_EXTERNAL) != 0);
}

SIM_API(cuCtxRecordEvent, change, (CUcontext handle, CUevent event), (handle, event)) {
  auto context = process().contexts.find(handle, CUDA_ERROR_INVALID_CONTEXT);
  forbid_capturing(*context);
  carry_out(RecordOp{named(event)}, context->stream(CU_STREAM_LEGACY, DefaultStream::legacy), context->everything());
}

// What follows in the context waits: all its streams do, those that are made later by the legacy stream's rules.
SIM_API(cuCtxWaitEvent, change, (CUcontext handle, CUevent event), (handle, event)) {
  auto context = process().contexts.find(handle, CUDA_ERROR_INVALID_CONTEXT);
  forbid_capturing(*context);
  std::shared_ptr<Event> awaited = named(event);
  forbid_captured(*awaited);
  wait_for(awaited, context->stream(CU_STREAM_LEGACY, DefaultStream::legacy), false);
  for (const auto& stream : context->streams()) wait_for(awaited, stream, false);
}
