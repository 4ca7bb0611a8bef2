// What is launched of graphs.
#include <algorithm>
#include <set>

#include "copy_description.h"
#include "failure.h"
#include "graph.h"
#include "linear.h"
#include "process.h"
#include "transfer.h"

namespace sim {

namespace {

// Everything in the order of its launch, child graphs in the place of their nodes; what is switched off left out.
void flatten(const Graph& graph, std::vector<const Operation*>& order) {
  for (Node* node : graph.in_order()) {
    if (auto* child = std::get_if<ChildOp>(&node->operation)) flatten(*child->graph, order);
    else if (node->enabled) order.push_back(&node->operation);
  }
}

// What `carry_out` will find wrong is found before anything is submitted.
void try_out(const Operation& operation, Context& context) {
  auto device = [&](CUcontext handle) -> Device& {
    return handle == nullptr ? context.device
                             : process().contexts.find(handle, CUDA_ERROR_INVALID_CONTEXT)->device;
  };
  if (auto* op = std::get_if<KernelOp>(&operation)) check(*op);
  else if (auto* op = std::get_if<CopyOp>(&operation)) resolved(transfer_of(op->what), device(op->context));
  else if (auto* op = std::get_if<FillOp>(&operation)) resolved(op->what, device(op->context));
  else if (auto* op = std::get_if<MemoryOp>(&operation)) resolved(*op);
  else if (auto* op = std::get_if<FreeOp>(&operation)) require(process().memory.starting_at(op->address) != nullptr);
}

// What a launch does to the memory of allocation nodes, played through: nothing may be taken twice or freed untaken.
void play_through(const std::vector<const Operation*>& order, bool free_first) {
  std::set<CUdeviceptr> taken, freed;
  for (const Operation* operation : order) {
    if (auto* op = std::get_if<AllocOp>(operation)) {
      require((!op->memory->live || free_first) && taken.insert(op->what.dptr).second);
    } else if (auto* op = std::get_if<FreeOp>(operation)) {
      require(freed.insert(op->address).second);
    }
  }
}

bool same_shape(const Graph& a, const Graph& b) {
  auto position = [](const Graph& graph, const Node* node) {
    return std::find_if(graph.nodes.begin(), graph.nodes.end(), [&](const auto& n) { return n.get() == node; }) -
           graph.nodes.begin();
  };
  for (size_t i = 0; i < a.nodes.size(); ++i) {
    std::set<ptrdiff_t> ours, theirs;
    for (Node* each : a.nodes[i]->after) ours.insert(position(a, each));
    for (Node* each : b.nodes[i]->after) theirs.insert(position(b, each));
    if (ours != theirs) return false;
  }
  return true;
}

Update compare(const Graph& now, const Graph& wanted) {
  if (now.nodes.size() != wanted.nodes.size()) return {CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, nullptr};
  for (size_t i = 0; i < now.nodes.size(); ++i) {
    Operation &old = now.nodes[i]->operation, &fresh = wanted.nodes[i]->operation;
    Node* node = wanted.nodes[i].get();
    if (old.index() != fresh.index()) return {CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, node};
    if (auto* child = std::get_if<ChildOp>(&old)) {
      Update inner = compare(*child->graph, *std::get<ChildOp>(fresh).graph);
      if (inner.result != CU_GRAPH_EXEC_UPDATE_SUCCESS) return inner;
    } else if (auto* kernel = std::get_if<KernelOp>(&old)) {
      auto& other = std::get<KernelOp>(fresh);
      if (&kernel->function->context != &other.function->context)
        return {CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE, node};
      if (kernel->cooperative != other.cooperative) return {CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED, node};
    } else if (auto* take = std::get_if<AllocOp>(&old)) {
      if (take->what.bytesize != std::get<AllocOp>(fresh).what.bytesize)
        return {CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED, node};
    }
  }
  if (!same_shape(now, wanted)) return {CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, nullptr};
  return {CU_GRAPH_EXEC_UPDATE_SUCCESS, nullptr};
}

void take_over(Graph& now, const Graph& wanted) {
  for (size_t i = 0; i < now.nodes.size(); ++i) {
    Operation& old = now.nodes[i]->operation;
    if (auto* child = std::get_if<ChildOp>(&old)) {
      take_over(*child->graph, *std::get<ChildOp>(wanted.nodes[i]->operation).graph);
      continue;
    }
    old = wanted.nodes[i]->operation;
    now.nodes[i]->attributes = wanted.nodes[i]->attributes;
  }
}

}  // namespace

AllocOp allocation_node(const CUDA_MEM_ALLOC_NODE_PARAMS& what) {
  const CUmemPoolProps& pool = what.poolProps;
  require(what.bytesize != 0 && pool.allocType == CU_MEM_ALLOCATION_TYPE_PINNED &&
          pool.location.type == CU_MEM_LOCATION_TYPE_DEVICE && pool.handleTypes == CU_MEM_HANDLE_TYPE_NONE);
  require(what.accessDescs != nullptr || what.accessDescCount == 0);
  Device& device = process().device(pool.location.id);
  AllocOp op{what, {what.accessDescs, what.accessDescs + what.accessDescCount}, nullptr};
  op.what.accessDescs = nullptr;
  AllocationRef made = make_linear(process(), Kind::pooled, device, nullptr, what.bytesize);
  op.memory = std::make_shared<GraphMemory>(made);
  made->graph_memory = op.memory;
  op.what.dptr = made->base;
  return op;
}

std::shared_ptr<GraphExec> instantiate(Graph& graph, unsigned long long flags) {
  constexpr unsigned long long known = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                                       CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD | CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH |
                                       CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
  require((flags & ~known) == 0);
  require(!(flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH), CUDA_ERROR_NOT_SUPPORTED);
  require(graph.in_order().size() == graph.nodes.size());  // a circle
  bool allocates = std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const auto& node) {
    return std::holds_alternative<AllocOp>(node->operation);
  });
  require(!allocates || graph.instantiated.expired(), CUDA_ERROR_NOT_SUPPORTED);
  auto exec = std::make_shared<GraphExec>();
  graph.instantiated = exec;
  exec->graph = graph.clone();
  exec->flags = flags;
  std::vector<const Operation*> order;
  flatten(*exec->graph, order);
  for (const Operation* operation : order)
    if (auto* kernel = std::get_if<KernelOp>(operation)) check(*kernel);
  return exec;
}

void launch(GraphExec& exec, const std::shared_ptr<Stream>& stream) {
  std::vector<const Operation*> order;
  flatten(*exec.graph, order);
  play_through(order, (exec.flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0);
  for (const Operation* operation : order) try_out(*operation, *stream->context);
  std::vector<Ticket> after{exec.last};
  for (const Operation* operation : order) {
    exec.last = carry_out(*operation, stream, std::move(after));
    after.clear();
  }
}

Update update(GraphExec& exec, const Graph& graph) {
  Update found = compare(*exec.graph, graph);
  if (found.result == CU_GRAPH_EXEC_UPDATE_SUCCESS) take_over(*exec.graph, graph);
  return found;
}

}  // namespace sim
