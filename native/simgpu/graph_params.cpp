#include "graph_params.h"

#include "copy_description.h"
#include "event.h"
#include "failure.h"
#include "graph_names.h"
#include "module.h"
#include "transfer.h"

namespace sim {

namespace {

Context& context_of(CUcontext handle) {
  if (handle == nullptr) return *current_context();
  return *process().contexts.find(handle, CUDA_ERROR_INVALID_CONTEXT);
}

// Serves all versions: the fields that they share have the same names.
template <typename Params>
KernelOp kernel_of(const Params& what, CUfunction handle, Context& context) {
  KernelOp op;
  if (auto kernel = process().kernels.look(reinterpret_cast<CUkernel>(handle))) {
    op.kernel = kernel->handle();
    op.function = kernel->in(context);
  } else {
    op.function = function_of(handle);
  }
  op.grid = {what.gridDimX, what.gridDimY, what.gridDimZ};
  op.block = {what.blockDimX, what.blockDimY, what.blockDimZ};
  op.shared = what.sharedMemBytes;
  op.parameters = parameters_of(*op.function, what.kernelParams, what.extra);
  check(op);
  return op;
}

template <typename Params>
KernelOp newer_kernel_of(const Params& what) {
  require(what.func == nullptr || what.kern == nullptr);
  CUfunction handle = what.func != nullptr ? what.func : reinterpret_cast<CUfunction>(what.kern);
  return kernel_of(what, handle, context_of(what.ctx));
}

std::shared_ptr<Event> event_of(CUevent handle) { return process().events.find(handle, CUDA_ERROR_INVALID_VALUE); }

}  // namespace

KernelOp operation_of(const CUDA_KERNEL_NODE_PARAMS_v1* what) {
  require(what != nullptr);
  return kernel_of(*what, what->func, *current_context());
}

KernelOp operation_of(const CUDA_KERNEL_NODE_PARAMS* what) {
  require(what != nullptr);
  return newer_kernel_of(*what);
}

CopyOp operation_of(const CUDA_MEMCPY3D* what, CUcontext context) {
  require(what != nullptr);
  Context& in = context_of(context);
  resolved(transfer_of(*what), in.device);
  return {*what, in.handle()};
}

FillOp operation_of(const CUDA_MEMSET_NODE_PARAMS* what, CUcontext context) {
  require(what != nullptr && what->width != 0 && what->height != 0);
  Context& in = context_of(context);
  resolved(*what, in.device);
  return {*what, in.handle()};
}

HostOp operation_of(const CUDA_HOST_NODE_PARAMS* what) {
  require(what != nullptr && what->fn != nullptr);
  return {what->fn, what->userData};
}

ChildOp child_of(CUgraph handle) {
  std::shared_ptr<Graph> graph = graph_of(handle);
  for (const auto& node : graph->nodes) {
    auto type = type_of(node->operation);
    require(type != CU_GRAPH_NODE_TYPE_MEM_ALLOC && type != CU_GRAPH_NODE_TYPE_MEM_FREE, CUDA_ERROR_NOT_SUPPORTED);
  }
  return {graph->clone()};
}

RecordOp record_of(CUevent handle) { return {event_of(handle)}; }
WaitOp wait_of(CUevent handle) { return {event_of(handle)}; }

FreeOp free_of(const Graph& graph, CUdeviceptr address) {
  AllocationRef found = process().memory.starting_at(address);
  require(found && !found->graph_memory.expired());
  require(graph.instantiated.expired());
  for (const auto& node : graph.nodes)
    if (auto* other = std::get_if<FreeOp>(&node->operation)) require(other->address != address);
  return {address};
}

MemoryOp operation_of(const CUDA_BATCH_MEM_OP_NODE_PARAMS* what) {
  require(what != nullptr && what->paramArray != nullptr && what->count <= 256 && what->flags == 0);
  MemoryOp op{{what->paramArray, what->paramArray + what->count}, what->ctx};
  resolved(op);
  return op;
}

Operation operation_of(const Graph& graph, CUgraphNodeParams& what) {
  switch (what.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return newer_kernel_of(what.kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return operation_of(&what.memcpy.copyParams, what.memcpy.copyCtx);
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      const auto& fill = what.memset;
      CUDA_MEMSET_NODE_PARAMS plain{fill.dst, fill.pitch, fill.value, fill.elementSize, fill.width, fill.height};
      return operation_of(&plain, fill.ctx);
    }
    case CU_GRAPH_NODE_TYPE_HOST:
      require(what.host.fn != nullptr);
      return HostOp{what.host.fn, what.host.userData};
    case CU_GRAPH_NODE_TYPE_GRAPH:
      require(what.graph.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE, CUDA_ERROR_NOT_SUPPORTED);
      return child_of(what.graph.graph);
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return EmptyOp{};
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return wait_of(what.eventWait.event);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return record_of(what.eventRecord.event);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: {
      const auto& asked = what.alloc;
      AllocOp op = allocation_node({asked.poolProps, asked.accessDescs, asked.accessDescCount, asked.bytesize, 0});
      what.alloc.dptr = op.what.dptr;
      return op;
    }
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return free_of(graph, what.free.dptr);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: {
      CUDA_BATCH_MEM_OP_NODE_PARAMS plain{what.memOp.ctx, what.memOp.count, what.memOp.paramArray, what.memOp.flags};
      return operation_of(&plain);
    }
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
      fail(CUDA_ERROR_NOT_SUPPORTED);
    default:
      fail(CUDA_ERROR_INVALID_VALUE);
  }
}

CUDA_KERNEL_NODE_PARAMS described(Node& node) {
  KernelOp& op = operation_in<KernelOp>(node);
  node.parameters.clear();
  for (const auto& parameter : op.function->kernel.parameters)
    node.parameters.push_back(op.parameters.data() + parameter.offset);
  CUDA_KERNEL_NODE_PARAMS what{};
  what.func = op.kernel == nullptr ? op.function->handle() : nullptr;
  what.kern = op.kernel;
  what.ctx = op.function->context.handle();
  what.gridDimX = op.grid[0];
  what.gridDimY = op.grid[1];
  what.gridDimZ = op.grid[2];
  what.blockDimX = op.block[0];
  what.blockDimY = op.block[1];
  what.blockDimZ = op.block[2];
  what.sharedMemBytes = op.shared;
  what.kernelParams = node.parameters.empty() ? nullptr : node.parameters.data();
  return what;
}

void replace(Node& node, Operation operation) {
  require(node.operation.index() == operation.index());
  if (auto* kernel = std::get_if<KernelOp>(&node.operation)) {
    auto& fresh = std::get<KernelOp>(operation);
    require(&kernel->function->context == &fresh.function->context);
    fresh.cooperative = kernel->cooperative;
    check(fresh);
  }
  require(!std::holds_alternative<AllocOp>(operation) && !std::holds_alternative<FreeOp>(operation),
          CUDA_ERROR_NOT_SUPPORTED);
  node.operation = std::move(operation);
}

}  // namespace sim
