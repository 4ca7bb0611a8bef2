// Events.
#include "entry.h"

using namespace sim;

namespace {

constexpr unsigned known_flags = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;

std::shared_ptr<Event> named(CUevent handle) { return process().events.find(handle, CUDA_ERROR_INVALID_HANDLE); }

std::shared_ptr<Stream> stream_of(CUstream handle, DefaultStream zero) {
  return current_context()->stream(handle, zero);
}

void record_after(Event& event, Stream& stream, std::vector<Ticket> before) {
  auto recording = std::make_shared<Recording>();
  Work work;
  work.run = [recording](Stream&) {
    auto now = Clock::now().time_since_epoch();
    recording->nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  };
  work.after = std::move(before);
  work.instant = true;
  recording->ticket = stream.submit(std::move(work));
  event.recording = std::move(recording);
}

void record(CUevent handle, CUstream stream_handle, DefaultStream zero) {
  std::shared_ptr<Event> event = named(handle);
  std::shared_ptr<Stream> stream = stream_of(stream_handle, zero);
  require(event->context == stream->context, CUDA_ERROR_INVALID_HANDLE);
  record_after(*event, *stream, stream->context->implied_order(*stream));
}

void wait_in(Stream& stream, const Event& event) {
  if (!event.recording) return;
  Work work;
  work.run = [](Stream&) {};
  work.after = stream.context->implied_order(stream);
  work.after.push_back(event.recording->ticket);
  work.instant = true;
  stream.submit(std::move(work));
}

void elapsed(float* out, CUevent start, CUevent end) {
  require(out != nullptr);
  std::shared_ptr<Event> first = named(start), second = named(end);
  for (const Event* event : {first.get(), second.get()})
    require(event->recording && !(event->flags & CU_EVENT_DISABLE_TIMING), CUDA_ERROR_INVALID_HANDLE);
  require(first->recording->ticket.done() && second->recording->ticket.done(), CUDA_ERROR_NOT_READY);
  int64_t nanoseconds = second->recording->nanoseconds - first->recording->nanoseconds;
  *out = static_cast<float>(static_cast<double>(nanoseconds) / 1e6);
}

void destroy(CUevent handle) { process().events.remove(handle, CUDA_ERROR_INVALID_HANDLE); }

}  // namespace

SIM_API(cuEventCreate, change, (CUevent* out, unsigned flags), (out, flags)) {
  require(out != nullptr && (flags & ~known_flags) == 0);
  require(!(flags & CU_EVENT_INTERPROCESS), CUDA_ERROR_NOT_SUPPORTED);
  *out = process().events.add(std::make_shared<Event>(current_context().get(), flags, nullptr));
}

SIM_API(cuEventDestroy_v2, change, (CUevent handle), (handle)) { destroy(handle); }
SIM_API(cuEventDestroy, change, (CUevent handle), (handle)) { destroy(handle); }

SIM_STREAM_API(cuEventRecord, _ptsz, change, (CUevent event, CUstream stream), (event, stream)) {
  record(event, stream, zero);
}

SIM_STREAM_API(cuEventRecordWithFlags, _ptsz, change, (CUevent event, CUstream stream, unsigned flags),
               (event, stream, flags)) {
  require((flags & ~static_cast<unsigned>(CU_EVENT_RECORD_EXTERNAL)) == 0);
  record(event, stream, zero);
}

SIM_API(cuEventQuery, query, (CUevent handle), (handle)) {
  std::shared_ptr<Event> event = named(handle);
  require(!event->recording || event->recording->ticket.done(), CUDA_ERROR_NOT_READY);
}

SIM_API(cuEventSynchronize, wait, (CUevent handle), (handle)) {
  Ticket ticket;
  {
    Section section;
    std::shared_ptr<Event> event = named(handle);
    if (event->recording) ticket = event->recording->ticket;
  }
  ticket.wait();
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
  wait_in(*stream_of(stream, zero), *named(event));
}

SIM_API(cuCtxRecordEvent, change, (CUcontext handle, CUevent event), (handle, event)) {
  auto context = process().contexts.find(handle, CUDA_ERROR_INVALID_CONTEXT);
  auto stream = context->stream(CU_STREAM_LEGACY, DefaultStream::legacy);
  record_after(*named(event), *stream, context->everything());
}
