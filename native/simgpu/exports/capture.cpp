// Capture.
#include "entry.h"
#include "capture.h"

using namespace sim;

namespace {

std::shared_ptr<Stream> stream_of(CUstream handle, DefaultStream zero) {
  return current_context()->stream(handle, zero);
}

std::vector<Node*> listed(const CUgraphNode* nodes, size_t count) {
  require(nodes != nullptr || count == 0);
  std::vector<Node*> found;
  for (size_t i = 0; i < count; ++i)
    found.push_back(process().graph_nodes.find(nodes[i], CUDA_ERROR_INVALID_VALUE).get());
  return found;
}

void info(CUstream handle, DefaultStream zero, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
          const CUgraphNode** frontier, const CUgraphEdgeData** edges, size_t* count) {
  require(status != nullptr);
  std::shared_ptr<Stream> stream = stream_of(handle, zero);
  *status = capture_status(*stream);
  if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return;
  // Valid until the thread asks again.
  thread_local std::vector<CUgraphNode> nodes;
  nodes.clear();
  for (Node* node : stream->frontier) nodes.push_back(node->handle());
  if (id != nullptr) *id = stream->capture->id;
  if (graph != nullptr) *graph = stream->capture->graph->handle();
  if (frontier != nullptr) *frontier = nodes.data();
  if (edges != nullptr) *edges = nullptr;
  if (count != nullptr) *count = nodes.size();
}

void update(CUstream handle, DefaultStream zero, const CUgraphNode* nodes, size_t count, unsigned flags) {
  require(flags == CU_STREAM_ADD_CAPTURE_DEPENDENCIES || flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES);
  std::shared_ptr<Stream> stream = stream_of(handle, zero);
  require(stream->capture != nullptr, CUDA_ERROR_ILLEGAL_STATE);
  require(!stream->capture->invalid, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  std::vector<Node*> more = listed(nodes, count);
  for (Node* node : more) require(&node->graph == stream->capture->graph.get());
  if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) stream->frontier.clear();
  for (Node* node : more)
    if (std::find(stream->frontier.begin(), stream->frontier.end(), node) == stream->frontier.end())
      stream->frontier.push_back(node);
}

}  // namespace

SIM_STREAM_API(cuStreamBeginCapture_v2, _ptsz, change, (CUstream stream, CUstreamCaptureMode mode), (stream, mode)) {
  begin_capture(stream_of(stream, zero), mode, nullptr, {});
}

SIM_STREAM_API(cuStreamBeginCapture, _ptsz, change, (CUstream stream), (stream)) {
  begin_capture(stream_of(stream, zero), CU_STREAM_CAPTURE_MODE_GLOBAL, nullptr, {});
}

SIM_STREAM_API(cuStreamBeginCaptureToGraph, _ptsz, change,
               (CUstream stream, CUgraph handle, const CUgraphNode* after, const CUgraphEdgeData* edges, size_t count,
                CUstreamCaptureMode mode),
               (stream, handle, after, edges, count, mode)) {
  require(edges == nullptr, CUDA_ERROR_NOT_SUPPORTED);
  std::shared_ptr<Graph> graph = process().graphs.find(handle, CUDA_ERROR_INVALID_VALUE);
  std::vector<Node*> nodes = listed(after, count);
  for (Node* node : nodes) require(&node->graph == graph.get());
  begin_capture(stream_of(stream, zero), mode, std::move(graph), std::move(nodes));
}

SIM_STREAM_API(cuStreamEndCapture, _ptsz, change, (CUstream stream, CUgraph* out), (stream, out)) {
  if (out != nullptr) *out = nullptr;
  std::shared_ptr<Graph> graph = end_capture(*stream_of(stream, zero));
  if (out != nullptr) *out = graph->handle();
}

SIM_STREAM_API(cuStreamIsCapturing, _ptsz, query, (CUstream stream, CUstreamCaptureStatus* out), (stream, out)) {
  require(out != nullptr);
  std::shared_ptr<Stream> asked = stream_of(stream, zero);
  require(!would_wait_for_captured(*asked), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  *out = capture_status(*asked);
}

SIM_STREAM_API(cuStreamGetCaptureInfo, _ptsz, query, (CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id),
               (stream, status, id)) {
  info(stream, zero, status, id, nullptr, nullptr, nullptr, nullptr);
}

SIM_STREAM_API(cuStreamGetCaptureInfo_v2, _ptsz, query,
               (CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                const CUgraphNode** frontier, size_t* count),
               (stream, status, id, graph, frontier, count)) {
  info(stream, zero, status, id, graph, frontier, nullptr, count);
}

SIM_STREAM_API(cuStreamGetCaptureInfo_v3, _ptsz, query,
               (CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                const CUgraphNode** frontier, const CUgraphEdgeData** edges, size_t* count),
               (stream, status, id, graph, frontier, edges, count)) {
  info(stream, zero, status, id, graph, frontier, edges, count);
}

SIM_STREAM_API(cuStreamUpdateCaptureDependencies, _ptsz, change,
               (CUstream stream, CUgraphNode* nodes, size_t count, unsigned flags), (stream, nodes, count, flags)) {
  update(stream, zero, nodes, count, flags);
}

SIM_STREAM_API(cuStreamUpdateCaptureDependencies_v2, _ptsz, change,
               (CUstream stream, CUgraphNode* nodes, const CUgraphEdgeData* edges, size_t count, unsigned flags),
               (stream, nodes, edges, count, flags)) {
  require(edges == nullptr, CUDA_ERROR_NOT_SUPPORTED);
  update(stream, zero, nodes, count, flags);
}

SIM_API(cuThreadExchangeStreamCaptureMode, query, (CUstreamCaptureMode* mode), (mode)) {
  require(mode != nullptr && *mode >= CU_STREAM_CAPTURE_MODE_GLOBAL && *mode <= CU_STREAM_CAPTURE_MODE_RELAXED);
  *mode = exchange_capture_mode(*mode);
}
