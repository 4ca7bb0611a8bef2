// Nodes: adding them, and reading and changing what they do.
#include "entry.h"
#include "graph_names.h"
#include "graph_params.h"

using namespace sim;

namespace {

void add(CUgraphNode* out, CUgraph handle, const CUgraphNode* after, size_t count, Operation operation) {
  require(out != nullptr);
  *out = graph_of(handle)->add(std::move(operation), nodes_of(after, count)).handle();
}

void add_any(CUgraphNode* out, CUgraph handle, const CUgraphNode* after, const CUgraphEdgeData* edges, size_t count,
             CUgraphNodeParams* what) {
  require(out != nullptr && what != nullptr);
  only_whole_edges(edges, count);
  add(out, handle, after, count, operation_of(*graph_of(handle), *what));
}

}  // namespace

#define ADD(symbol, type, operation)                                                                         \
  SIM_API(symbol, change,                                                                                    \
          (CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count, type what),              \
          (out, graph, after, count, what)) {                                                                \
    add(out, graph, after, count, operation);                                                                \
  }

ADD(cuGraphAddKernelNode, const CUDA_KERNEL_NODE_PARAMS_v1*, operation_of(what))
ADD(cuGraphAddKernelNode_v2, const CUDA_KERNEL_NODE_PARAMS*, operation_of(what))
ADD(cuGraphAddHostNode, const CUDA_HOST_NODE_PARAMS*, operation_of(what))
ADD(cuGraphAddChildGraphNode, CUgraph, child_of(what))
ADD(cuGraphAddEventRecordNode, CUevent, record_of(what))
ADD(cuGraphAddEventWaitNode, CUevent, wait_of(what))
ADD(cuGraphAddMemFreeNode, CUdeviceptr, free_of(*graph_of(graph), what))
ADD(cuGraphAddBatchMemOpNode, const CUDA_BATCH_MEM_OP_NODE_PARAMS*, operation_of(what))

SIM_API(cuGraphAddMemcpyNode, change,
        (CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count, const CUDA_MEMCPY3D* what,
         CUcontext context),
        (out, graph, after, count, what, context)) {
  add(out, graph, after, count, operation_of(what, context));
}

SIM_API(cuGraphAddMemsetNode, change,
        (CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count, const CUDA_MEMSET_NODE_PARAMS* what,
         CUcontext context),
        (out, graph, after, count, what, context)) {
  add(out, graph, after, count, operation_of(what, context));
}

SIM_API(cuGraphAddEmptyNode, change, (CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count),
        (out, graph, after, count)) {
  add(out, graph, after, count, EmptyOp{});
}

SIM_API(cuGraphAddMemAllocNode, change,
        (CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count, CUDA_MEM_ALLOC_NODE_PARAMS* what),
        (out, graph, after, count, what)) {
  require(what != nullptr && out != nullptr);
  graph_of(graph);
  AllocOp op = allocation_node(*what);
  what->dptr = op.what.dptr;
  add(out, graph, after, count, std::move(op));
}

SIM_API(cuGraphAddNode, change,
        (CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count, CUgraphNodeParams* what),
        (out, graph, after, count, what)) {
  add_any(out, graph, after, nullptr, count, what);
}

SIM_API(cuGraphAddNode_v2, change,
        (CUgraphNode* out, CUgraph graph, const CUgraphNode* after, const CUgraphEdgeData* edges, size_t count,
         CUgraphNodeParams* what),
        (out, graph, after, edges, count, what)) {
  add_any(out, graph, after, edges, count, what);
}

SIM_API(cuGraphNodeSetParams, change, (CUgraphNode node, CUgraphNodeParams* what), (node, what)) {
  require(what != nullptr);
  replace(*node_of(node), operation_of(node_of(node)->graph, *what));
}

SIM_API(cuGraphKernelNodeGetParams, query, (CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1* out), (node, out)) {
  require(out != nullptr);
  CUDA_KERNEL_NODE_PARAMS all = described(*node_of(node));
  CUfunction function = operation_in<KernelOp>(*node_of(node)).function->handle();
  *out = {function,      all.gridDimX,  all.gridDimY,       all.gridDimZ,     all.blockDimX,
          all.blockDimY, all.blockDimZ, all.sharedMemBytes, all.kernelParams, nullptr};
}

SIM_API(cuGraphKernelNodeGetParams_v2, query, (CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* out), (node, out)) {
  require(out != nullptr);
  *out = described(*node_of(node));
}

SIM_API(cuGraphKernelNodeSetParams, change, (CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1* what), (node, what)) {
  replace(*node_of(node), operation_of(what));
}

SIM_API(cuGraphKernelNodeSetParams_v2, change, (CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* what), (node, what)) {
  replace(*node_of(node), operation_of(what));
}

SIM_API(cuGraphMemcpyNodeGetParams, query, (CUgraphNode node, CUDA_MEMCPY3D* out), (node, out)) {
  require(out != nullptr);
  *out = operation_in<CopyOp>(*node_of(node)).what;
}

SIM_API(cuGraphMemcpyNodeSetParams, change, (CUgraphNode handle, const CUDA_MEMCPY3D* what), (handle, what)) {
  std::shared_ptr<Node> node = node_of(handle);
  replace(*node, operation_of(what, operation_in<CopyOp>(*node).context));
}

SIM_API(cuGraphMemsetNodeGetParams, query, (CUgraphNode node, CUDA_MEMSET_NODE_PARAMS* out), (node, out)) {
  require(out != nullptr);
  *out = operation_in<FillOp>(*node_of(node)).what;
}

SIM_API(cuGraphMemsetNodeSetParams, change, (CUgraphNode handle, const CUDA_MEMSET_NODE_PARAMS* what), (handle, what)) {
  std::shared_ptr<Node> node = node_of(handle);
  replace(*node, operation_of(what, operation_in<FillOp>(*node).context));
}

SIM_API(cuGraphHostNodeGetParams, query, (CUgraphNode node, CUDA_HOST_NODE_PARAMS* out), (node, out)) {
  require(out != nullptr);
  const HostOp& op = operation_in<HostOp>(*node_of(node));
  *out = {op.function, op.data};
}

SIM_API(cuGraphHostNodeSetParams, change, (CUgraphNode node, const CUDA_HOST_NODE_PARAMS* what), (node, what)) {
  replace(*node_of(node), operation_of(what));
}

SIM_API(cuGraphChildGraphNodeGetGraph, query, (CUgraphNode node, CUgraph* out), (node, out)) {
  require(out != nullptr);
  *out = operation_in<ChildOp>(*node_of(node)).graph->handle();
}

SIM_API(cuGraphEventRecordNodeGetEvent, query, (CUgraphNode node, CUevent* out), (node, out)) {
  require(out != nullptr);
  *out = reinterpret_cast<CUevent>(operation_in<RecordOp>(*node_of(node)).event.get());
}

SIM_API(cuGraphEventRecordNodeSetEvent, change, (CUgraphNode node, CUevent event), (node, event)) {
  replace(*node_of(node), record_of(event));
}

SIM_API(cuGraphEventWaitNodeGetEvent, query, (CUgraphNode node, CUevent* out), (node, out)) {
  require(out != nullptr);
  *out = reinterpret_cast<CUevent>(operation_in<WaitOp>(*node_of(node)).event.get());
}

SIM_API(cuGraphEventWaitNodeSetEvent, change, (CUgraphNode node, CUevent event), (node, event)) {
  replace(*node_of(node), wait_of(event));
}

SIM_API(cuGraphMemAllocNodeGetParams, query, (CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS* out), (node, out)) {
  require(out != nullptr);
  const AllocOp& op = operation_in<AllocOp>(*node_of(node));
  *out = op.what;
  out->accessDescs = op.access.data();
}

SIM_API(cuGraphMemFreeNodeGetParams, query, (CUgraphNode node, CUdeviceptr* out), (node, out)) {
  require(out != nullptr);
  *out = operation_in<FreeOp>(*node_of(node)).address;
}

SIM_API(cuGraphKernelNodeGetAttribute, query,
        (CUgraphNode node, CUkernelNodeAttrID attribute, CUkernelNodeAttrValue* out), (node, attribute, out)) {
  require(out != nullptr && attribute > CU_LAUNCH_ATTRIBUTE_IGNORE && attribute < CU_LAUNCH_ATTRIBUTE_MAX);
  std::shared_ptr<Node> found = node_of(node);
  const KernelOp& op = operation_in<KernelOp>(*found);
  *out = {};
  for (const auto& each : found->attributes)
    if (each.id == attribute) *out = each.value;
  if (attribute == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) out->cooperative = op.cooperative;
}

SIM_API(cuGraphKernelNodeSetAttribute, change,
        (CUgraphNode node, CUkernelNodeAttrID attribute, const CUkernelNodeAttrValue* value),
        (node, attribute, value)) {
  require(value != nullptr);
  std::shared_ptr<Node> found = node_of(node);
  KernelOp& op = operation_in<KernelOp>(*found);
  CUlaunchAttribute set{attribute, {}, *value};
  apply_attributes(op, &set, 1);
  std::erase_if(found->attributes, [&](const auto& each) { return each.id == attribute; });
  found->attributes.push_back(set);
}

SIM_API(cuGraphKernelNodeCopyAttributes, change, (CUgraphNode to, CUgraphNode from), (to, from)) {
  std::shared_ptr<Node> target = node_of(to), source = node_of(from);
  operation_in<KernelOp>(*target).cooperative = operation_in<KernelOp>(*source).cooperative;
  target->attributes = source->attributes;
}
