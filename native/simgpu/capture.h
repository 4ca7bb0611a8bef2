// Capture: a stream that is captured does nothing; what it is asked for becomes nodes of a graph.
//
// Everything here is under the process lock.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "context.h"
#include "event.h"
#include "graph.h"

namespace sim {

// One capture, begun in one stream, which other streams join by waiting for its events.
struct Capture {
  std::shared_ptr<Graph> graph;
  CUstreamCaptureMode mode;
  std::thread::id thread;
  uint64_t id;
  Stream* origin;
  bool invalid = false;
  bool into_program_graph = false;             // the graph was there before
  std::vector<std::weak_ptr<Stream>> streams;  // that take part, the origin first
  std::vector<Node*> left_behind;              // by streams that took part and are gone: must be joined all the same
};

// What the stream is asked for becomes a node, and true is returned; false when the stream is not captured. Throws
// CUDA_ERROR_STREAM_CAPTURE_INVALIDATED; CUDA_ERROR_STREAM_CAPTURE_IMPLICIT when the legacy stream would have to wait
// for a captured one, which ends that one's capture.
bool captured(Stream& stream, Operation operation);
// The same, and puts the operation into the stream when it is not captured.
void capture_or_carry_out(const std::shared_ptr<Stream>& stream, Operation operation);
// Whether it is a legacy stream that would have to wait for a stream under capture.
bool would_wait_for_captured(const Stream& stream);

// For calls that cannot be captured. They throw CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED and make the captures invalid.
void forbid_captured(Stream& stream);        // the stream is asked about, or waited for
void forbid_capturing(const Context& context);  // so is everything in the context
void forbid_unsafe();                        // may wait for what it cannot know; depends on the modes of capture

// The two halves of order between streams.
void record(const std::shared_ptr<Event>& event, const std::shared_ptr<Stream>& stream, bool as_node);
void wait_for(const std::shared_ptr<Event>& event, const std::shared_ptr<Stream>& stream, bool as_node);
// Throws CUDA_ERROR_CAPTURED_EVENT when the event stands for a point in a capture.
void forbid_captured(Event& event);

void begin_capture(const std::shared_ptr<Stream>& stream, CUstreamCaptureMode mode, std::shared_ptr<Graph> graph,
                   std::vector<Node*> after);
std::shared_ptr<Graph> end_capture(Stream& stream);
CUstreamCaptureStatus capture_status(const Stream& stream);
// Of a stream or context that goes away.
void abandon_capture(Stream& stream);

CUstreamCaptureMode exchange_capture_mode(CUstreamCaptureMode mode);

}  // namespace sim
