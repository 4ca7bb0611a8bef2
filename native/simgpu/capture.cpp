#include "capture.h"

#include <algorithm>
#include <set>

#include "failure.h"
#include "process.h"

namespace sim {

namespace {

thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

[[noreturn]] void end_by(Capture& capture, CUresult status) {
  capture.invalid = true;
  fail(status);
}

// The captured streams that the legacy stream of a context would wait for.
std::vector<Capture*> in_the_way_of_legacy(const Context& context) {
  std::vector<Capture*> found;
  for (const auto& capture : process().captures)
    for (const auto& weak : capture->streams)
      if (auto stream = weak.lock(); stream && stream->context == &context && !(stream->flags & CU_STREAM_NON_BLOCKING))
        found.push_back(capture.get());
  return found;
}

void forbid_implicit(const Stream& stream) {
  if (!stream.context->is_legacy(stream)) return;
  auto others = in_the_way_of_legacy(*stream.context);
  if (others.empty()) return;
  for (Capture* capture : others) capture->invalid = true;
  fail(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
}

void join(const std::shared_ptr<Stream>& stream, const std::shared_ptr<Capture>& capture) {
  stream->capture = capture;
  stream->frontier.clear();
  capture->streams.push_back(stream);
}

void leave(Stream& stream) {
  stream.capture.reset();
  stream.frontier.clear();
}

bool leads_to(const std::vector<Node*>& ends, const Node* wanted) {
  std::vector<Node*> waiting(ends);
  std::set<Node*> seen;
  while (!waiting.empty()) {
    Node* node = waiting.back();
    waiting.pop_back();
    if (node == wanted) return true;
    if (seen.insert(node).second) waiting.insert(waiting.end(), node->after.begin(), node->after.end());
  }
  return false;
}

// Whether some stream's last nodes do not lead to what the origin would do next.
bool unjoined(const Capture& capture, const Stream& origin) {
  std::vector<Node*> tips = capture.left_behind;
  for (const auto& weak : capture.streams)
    if (auto stream = weak.lock(); stream && stream->capture.get() == &capture)
      tips.insert(tips.end(), stream->frontier.begin(), stream->frontier.end());
  return std::any_of(tips.begin(), tips.end(), [&](const Node* tip) { return !leads_to(origin.frontier, tip); });
}

void add_to(std::vector<Node*>& frontier, const std::vector<Node*>& more) {
  for (Node* node : more)
    if (std::find(frontier.begin(), frontier.end(), node) == frontier.end()) frontier.push_back(node);
}

}  // namespace

bool captured(Stream& stream, Operation operation) {
  if (!stream.capture) {
    forbid_implicit(stream);
    return false;
  }
  require(!stream.capture->invalid, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  Node& node = stream.capture->graph->add(std::move(operation), stream.frontier);
  stream.frontier = {&node};
  return true;
}

bool would_wait_for_captured(const Stream& stream) {
  return stream.context->is_legacy(stream) && !in_the_way_of_legacy(*stream.context).empty();
}

void capture_or_carry_out(const std::shared_ptr<Stream>& stream, Operation operation) {
  if (!captured(*stream, operation)) carry_out(operation, stream, {});
}

void forbid_captured(Stream& stream) {
  if (stream.capture) end_by(*stream.capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  forbid_implicit(stream);
}

void forbid_capturing(const Context& context) {
  bool any = false;
  for (const auto& capture : process().captures)
    for (const auto& weak : capture->streams)
      if (auto stream = weak.lock(); stream && stream->context == &context) any = capture->invalid = true;
  require(!any, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

void forbid_unsafe() {
  if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return;
  bool any = false;
  for (const auto& capture : process().captures) {
    bool mine = capture->thread == std::this_thread::get_id() && capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    bool global = thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL && capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (mine || global) any = capture->invalid = true;
  }
  require(!any, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

void record(const std::shared_ptr<Event>& event, const std::shared_ptr<Stream>& stream, bool as_node) {
  require(stream->capture || !as_node, CUDA_ERROR_ILLEGAL_STATE);
  if (!stream->capture || as_node) {
    if (!captured(*stream, RecordOp{event})) {
      carry_out(RecordOp{event}, stream, {});
      event->capture.reset();
      event->captured_at.clear();
      event->stale = false;
    }
    return;
  }
  require(!stream->capture->invalid, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  event->stale = false;
  event->capture = stream->capture;
  event->captured_at = stream->frontier;
}

void wait_for(const std::shared_ptr<Event>& event, const std::shared_ptr<Stream>& stream, bool as_node) {
  require(stream->capture || !as_node, CUDA_ERROR_ILLEGAL_STATE);
  require(!event->stale);
  if (as_node) {
    captured(*stream, WaitOp{event});
    return;
  }
  std::shared_ptr<Capture> other = event->capture;
  if (!other) {
    if (stream->capture) {
      require(!stream->capture->invalid, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
      if (!event->recording) return;
      end_by(*stream->capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    }
    carry_out(WaitOp{event}, stream, {});
    return;
  }
  require(!other->invalid && !(stream->capture && stream->capture->invalid), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  if (stream->context->is_legacy(*stream)) end_by(*other, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  if (!stream->capture) join(stream, other);
  if (stream->capture != other) {
    stream->capture->invalid = true;
    end_by(*other, CUDA_ERROR_STREAM_CAPTURE_MERGE);
  }
  add_to(stream->frontier, event->captured_at);
}

void forbid_captured(Event& event) {
  if (event.capture) end_by(*event.capture, CUDA_ERROR_CAPTURED_EVENT);
  require(!event.stale);
}

void begin_capture(const std::shared_ptr<Stream>& stream, CUstreamCaptureMode mode, std::shared_ptr<Graph> graph,
                   std::vector<Node*> after) {
  require(mode >= CU_STREAM_CAPTURE_MODE_GLOBAL && mode <= CU_STREAM_CAPTURE_MODE_RELAXED);
  require(!stream->context->is_legacy(*stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  require(!stream->capture, CUDA_ERROR_ILLEGAL_STATE);
  static uint64_t next = 1;
  auto capture = std::make_shared<Capture>();
  capture->into_program_graph = graph != nullptr;
  capture->graph = graph != nullptr ? std::move(graph) : std::make_shared<Graph>();
  if (!capture->into_program_graph) {
    process().graphs.add(capture->graph);
    capture->graph->list();
  }
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->id = next++;
  capture->origin = stream.get();
  join(stream, capture);
  stream->frontier = std::move(after);
  process().captures.push_back(std::move(capture));
}

std::shared_ptr<Graph> end_capture(Stream& stream) {
  std::shared_ptr<Capture> capture = stream.capture;
  require(capture != nullptr, CUDA_ERROR_ILLEGAL_STATE);
  if (capture->origin != &stream) end_by(*capture, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  // Whatever is wrong, the capture is over.
  CUresult status = CUDA_SUCCESS;
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != std::this_thread::get_id())
    status = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  else if (capture->invalid) status = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  else if (unjoined(*capture, stream)) status = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  for (const auto& weak : capture->streams)
    if (auto other = weak.lock(); other && other->capture == capture) leave(*other);
  for (const auto& event : process().events.all()) {
    if (event->capture != capture) continue;
    event->capture.reset();
    event->captured_at.clear();
    event->stale = true;
  }
  std::erase(process().captures, capture);
  if (status == CUDA_SUCCESS) return capture->graph;
  if (!capture->into_program_graph) {
    capture->graph->unlist();
    process().graphs.remove(capture->graph->handle(), status);
  }
  fail(status);
}

CUstreamCaptureStatus capture_status(const Stream& stream) {
  if (!stream.capture) return CU_STREAM_CAPTURE_STATUS_NONE;
  return stream.capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

void abandon_capture(Stream& stream) {
  if (!stream.capture) return;
  std::shared_ptr<Capture> capture = stream.capture;
  if (capture->origin != &stream) {
    add_to(capture->left_behind, stream.frontier);
    leave(stream);
    return;
  }
  capture->invalid = true;
  try {
    capture->thread = std::this_thread::get_id();
    end_capture(stream);
  } catch (const Failure&) {
    // It was invalid: that is how its end is told.
  }
}

CUstreamCaptureMode exchange_capture_mode(CUstreamCaptureMode mode) { return std::exchange(thread_mode, mode); }

}  // namespace sim
