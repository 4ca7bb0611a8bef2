// What is launched of graphs.
#include "entry.h"
#include "capture.h"
#include "graph_names.h"
#include "graph_params.h"

using namespace sim;

namespace {

void make(CUgraphExec* out, CUgraph graph, unsigned long long flags) {
  require(out != nullptr);
  *out = process().graph_execs.add(instantiate(*graph_of(graph), flags));
}

void make_with(CUgraphExec* out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* how) {
  require(how != nullptr);
  how->hErrNode_out = nullptr;
  how->result_out = CUDA_GRAPH_INSTANTIATE_ERROR;
  make(out, graph, how->flags);
  how->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
}

CUgraphExecUpdateResultInfo update_to(CUgraphExec handle, CUgraph graph) {
  Update done = update(*exec_of(handle), *graph_of(graph));
  return {done.result, done.to != nullptr ? done.to->handle() : nullptr, nullptr};
}

Node& switchable(CUgraphExec exec, CUgraphNode handle) {
  Node& node = launched(*exec_of(exec), handle);
  auto type = type_of(node.operation);
  require(type == CU_GRAPH_NODE_TYPE_KERNEL || type == CU_GRAPH_NODE_TYPE_MEMCPY || type == CU_GRAPH_NODE_TYPE_MEMSET);
  return node;
}

}  // namespace

SIM_API(cuGraphInstantiate, change, (CUgraphExec* out, CUgraph graph, CUgraphNode* node, char* log, size_t room),
        (out, graph, node, log, room)) {
  if (node != nullptr) *node = nullptr;
  if (log != nullptr && room != 0) *log = '\0';
  make(out, graph, 0);
}

SIM_API(cuGraphInstantiate_v2, change, (CUgraphExec* out, CUgraph graph, CUgraphNode* node, char* log, size_t room),
        (out, graph, node, log, room)) {
  if (node != nullptr) *node = nullptr;
  if (log != nullptr && room != 0) *log = '\0';
  make(out, graph, 0);
}

SIM_API(cuGraphInstantiateWithFlags, change, (CUgraphExec* out, CUgraph graph, unsigned long long flags),
        (out, graph, flags)) {
  make(out, graph, flags);
}

SIM_STREAM_API(cuGraphInstantiateWithParams, _ptsz, change,
               (CUgraphExec* out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* how), (out, graph, how)) {
  make_with(out, graph, how);
}

// Work under way does not need what it came from.
SIM_API(cuGraphExecDestroy, change, (CUgraphExec handle), (handle)) {
  process().graph_execs.remove(handle, CUDA_ERROR_INVALID_VALUE);
}

SIM_API(cuGraphExecGetFlags, query, (CUgraphExec handle, cuuint64_t* out), (handle, out)) {
  require(out != nullptr);
  *out = exec_of(handle)->flags;
}

SIM_STREAM_API(cuGraphLaunch, _ptsz, change, (CUgraphExec handle, CUstream stream_handle), (handle, stream_handle)) {
  std::shared_ptr<GraphExec> exec = exec_of(handle);
  std::shared_ptr<Stream> stream = current_context()->stream(stream_handle, zero);
  if (stream->capture) captured(*stream, ChildOp{exec->graph->clone()});
  else launch(*exec, stream);
}

// Nothing has to be brought anywhere.
SIM_STREAM_API(cuGraphUpload, _ptsz, change, (CUgraphExec handle, CUstream stream), (handle, stream)) {
  exec_of(handle);
  current_context()->stream(stream, zero);
}

SIM_API(cuGraphExecUpdate_v2, change, (CUgraphExec handle, CUgraph graph, CUgraphExecUpdateResultInfo* info),
        (handle, graph, info)) {
  require(info != nullptr);
  CUgraphExecUpdateResultInfo found = update_to(handle, graph);
  info->result = found.result;
  info->errorNode = found.errorNode;
  info->errorFromNode = found.errorFromNode;
  require(info->result == CU_GRAPH_EXEC_UPDATE_SUCCESS, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
}

SIM_API(cuGraphExecUpdate, change,
        (CUgraphExec handle, CUgraph graph, CUgraphNode* node, CUgraphExecUpdateResult* result),
        (handle, graph, node, result)) {
  CUgraphExecUpdateResultInfo info = update_to(handle, graph);
  if (node != nullptr) *node = info.errorNode;
  if (result != nullptr) *result = info.result;
  require(info.result == CU_GRAPH_EXEC_UPDATE_SUCCESS, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
}

SIM_API(cuGraphExecKernelNodeSetParams, change,
        (CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1* what), (exec, node, what)) {
  replace(launched(*exec_of(exec), node), operation_of(what));
}

SIM_API(cuGraphExecKernelNodeSetParams_v2, change,
        (CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* what), (exec, node, what)) {
  replace(launched(*exec_of(exec), node), operation_of(what));
}

SIM_API(cuGraphExecMemcpyNodeSetParams, change,
        (CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D* what, CUcontext context),
        (exec, node, what, context)) {
  replace(launched(*exec_of(exec), node), operation_of(what, context));
}

SIM_API(cuGraphExecMemsetNodeSetParams, change,
        (CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* what, CUcontext context),
        (exec, node, what, context)) {
  replace(launched(*exec_of(exec), node), operation_of(what, context));
}

SIM_API(cuGraphExecHostNodeSetParams, change, (CUgraphExec exec, CUgraphNode node, const CUDA_HOST_NODE_PARAMS* what),
        (exec, node, what)) {
  replace(launched(*exec_of(exec), node), operation_of(what));
}

SIM_API(cuGraphExecChildGraphNodeSetParams, change, (CUgraphExec exec, CUgraphNode node, CUgraph graph),
        (exec, node, graph)) {
  Node& target = launched(*exec_of(exec), node);
  GraphExec inner;
  inner.graph = operation_in<ChildOp>(target).graph;
  require(update(inner, *graph_of(graph)).result == CU_GRAPH_EXEC_UPDATE_SUCCESS);
}

SIM_API(cuGraphExecEventRecordNodeSetEvent, change, (CUgraphExec exec, CUgraphNode node, CUevent event),
        (exec, node, event)) {
  replace(launched(*exec_of(exec), node), record_of(event));
}

SIM_API(cuGraphExecEventWaitNodeSetEvent, change, (CUgraphExec exec, CUgraphNode node, CUevent event),
        (exec, node, event)) {
  replace(launched(*exec_of(exec), node), wait_of(event));
}

SIM_API(cuGraphExecNodeSetParams, change, (CUgraphExec exec, CUgraphNode node, CUgraphNodeParams* what),
        (exec, node, what)) {
  require(what != nullptr);
  replace(launched(*exec_of(exec), node), operation_of(node_of(node)->graph, *what));
}

SIM_API(cuGraphNodeSetEnabled, change, (CUgraphExec exec, CUgraphNode node, unsigned enabled), (exec, node, enabled)) {
  switchable(exec, node).enabled = enabled != 0;
}

SIM_API(cuGraphNodeGetEnabled, query, (CUgraphExec exec, CUgraphNode node, unsigned* out), (exec, node, out)) {
  require(out != nullptr);
  *out = switchable(exec, node).enabled;
}
