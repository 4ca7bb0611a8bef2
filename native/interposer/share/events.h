// Events that processes of a job share by IPC handle, without the driver's help: it could not save them.
//
// In each process such an event is an ordinary one of the driver's. A word that all of them see says which recording is the
// latest (event_table.h), and whose; how it stands is for its process to say, by a mark behind it (marks.h). A stream that
// has to wait for a recording of another process gets a host function that asks until it is done. An event of the driver's
// is used for what was recorded by it; where another recording is meant something else stands in for it.
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
// Before it is destroyed. Peers go on asking how its recordings stand.
void forget(CUevent event);

// The calls for the legacy or for the per-thread default stream.
struct Calls {
  CUresult (*record)(CUevent, CUstream);
  CUresult (*wait)(CUstream, CUevent, unsigned);
  CUresult (*is_capturing)(CUstream, CUstreamCaptureStatus*);
  CUresult (*launch_host)(CUstream, CUhostFn, void*);
};
extern const Calls kLegacy, kPerThread;

// Before the program records the event. The driver does recordings of such an event in their order, whoever makes them (seen
// on an H200): the stream waits for the one before.
void follow(CUevent event, CUstream stream, const Calls& calls);
// The program has just recorded the event; `captured`: into a graph, which nobody else sees.
void recorded(CUevent event, CUstream stream, const Calls& calls, bool captured);

// The latest recording of an event, for as long as it is looked at.
class Latest {
 public:
  explicit Latest(CUevent event);
  ~Latest();
  Latest(const Latest&) = delete;
  Latest& operator=(const Latest&) = delete;

  // The event of the driver's that stands for it here: one that was never recorded where the recording is done, or another
  // process's.
  CUevent event() const { return event_; }
  // What to ask another process, where it was recorded.
  const std::optional<EventRequest>& question() const { return question_; }

 private:
  CUevent event_;
  std::uint64_t pinned_ = 0;
  std::optional<EventRequest> question_;
};

// Has the stream wait, too, for a recording of another process.
CUresult await(CUevent event, const EventRequest& question, CUstream stream, const Calls& calls);
// Whether that recording of the event is done; false when nobody says so.
bool settled(CUevent event, const EventRequest& question);

// What a peer is told. The caller holds a ForkHold, and sends the descriptor along if there is one.
EventReply answer(const EventRequest& request, Descriptor& descriptor);

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

// Records, or waits: `call` is the driver's, on the event that it is given. `external` makes a node of a graph, whose launches nobody could follow.
template <typename Call>
CUresult record(CUevent event, CUstream stream, bool external, const Calls& calls, Call call) {
  if (!contains(event)) [[likely]] return call();
  const bool captured = is_captured(stream, calls);
  if (captured && external) return refuse("cuEventRecordWithFlags");
  if (!captured) follow(event, stream, calls);
  const CUresult result = call();
  if (result == CUDA_SUCCESS) recorded(event, stream, calls, captured);
  return result;
}

template <typename Call>
CUresult wait(CUstream stream, CUevent event, bool external, const Calls& calls, Call call) {
  if (!contains(event)) [[likely]] return call(event);
  if (is_captured(stream, calls)) return external ? refuse("cuStreamWaitEvent") : call(event);
  const Latest latest(event);
  const CUresult result = call(latest.event());
  return result == CUDA_SUCCESS && latest.question() ? await(event, *latest.question(), stream, calls) : result;
}

}  // namespace torpor::share::events
