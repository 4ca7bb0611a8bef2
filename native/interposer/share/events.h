// Events that processes of a job share by IPC handle, without the driver's help: it could not save them.
//
// In each process such an event is an ordinary one of the driver's. Behind every recording we record a mark, an event of
// ours, so that a peer which asks is told how that very recording stands, even when the event has been recorded again. A
// stream that has to wait for a recording of another process gets a host function that asks until it is done. Whoever
// made the event knows which process recorded it last.
#pragma once

#include <mutex>
#include <optional>

#include "../../abi/cuda_driver.h"
#include "message.h"

namespace torpor::share::events {

// Whether this process has had such an event, made or opened, and this one is one. A load when it has not.
bool contains(CUevent event);

// Makes an event that can be shared. Nothing where it would have to be the driver's: outside of a job, without the arena,
// or with flags that it refuses.
std::optional<CUresult> create(CUevent* out, unsigned flags);

// Of and for an event that is contained; to be called inside the gate.
CUresult give_handle(CUipcEventHandle* out, CUevent event);
CUresult open(CUevent* out, const CUipcEventHandle& handle);
// Before it is destroyed. Peers may go on asking how its recordings stand.
void forget(CUevent event);

// The calls for the legacy or for the per-thread default stream.
struct Calls {
  CUresult (*record)(CUevent, CUstream);
  CUresult (*is_capturing)(CUstream, CUstreamCaptureStatus*);
  CUresult (*launch_host)(CUstream, CUhostFn, void*);
};
extern const Calls kLegacy, kPerThread;

// The program has just recorded the event.
void recorded(CUevent event, CUstream stream, const Calls& calls);
// Has the stream wait, too, for a recording of another process.
CUresult await(CUevent event, CUstream stream, const Calls& calls);
// The question to which the answer is "not yet", if another process's recording is the latest and is not done.
std::optional<EventRequest> awaited(CUevent event);
bool settled(EventRequest& question);

// What a peer is told.
EventReply answer(const EventRequest& request);

// Waits for the context's work, which may need answers to peers; from then on no question reaches a mark. Nothing is held
// where there are no such events.
std::unique_lock<std::mutex> pause(CUcontext context);
// The context is gone, and its events with it; with the pause held.
void context_gone(CUcontext context);

// Says that such an event cannot be used there.
CUresult refuse(const char* symbol);

inline bool is_captured(CUstream stream, const Calls& calls) {
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
  return calls.is_capturing(stream, &capture) == CUDA_SUCCESS && capture != CU_STREAM_CAPTURE_STATUS_NONE;
}

// Records, or waits: `call` is the driver's. `external` makes a node of a graph, whose launches nobody could follow.
template <typename Call>
CUresult record(CUevent event, CUstream stream, bool external, const Calls& calls, Call call) {
  if (!contains(event)) [[likely]] return call();
  const bool captured = is_captured(stream, calls);
  if (captured && external) return refuse("cuEventRecordWithFlags");
  const CUresult result = call();
  if (result == CUDA_SUCCESS && !captured) recorded(event, stream, calls);
  return result;
}

template <typename Call>
CUresult wait(CUstream stream, CUevent event, bool external, const Calls& calls, Call call) {
  if (!contains(event)) [[likely]] return call();
  const bool captured = is_captured(stream, calls);
  if (captured && external) return refuse("cuStreamWaitEvent");
  const CUresult result = call();
  return result == CUDA_SUCCESS && !captured ? await(event, stream, calls) : result;
}

}  // namespace torpor::share::events
