// From handles to what they name, for the exported graph calls. Under the process lock.
#pragma once

#include <algorithm>

#include "graph.h"
#include "process.h"

namespace sim {

inline std::shared_ptr<Graph> graph_of(CUgraph handle) {
  return process().graphs.find(handle, CUDA_ERROR_INVALID_VALUE);
}

inline std::shared_ptr<Node> node_of(CUgraphNode handle) {
  return process().graph_nodes.find(handle, CUDA_ERROR_INVALID_VALUE);
}

inline std::shared_ptr<GraphExec> exec_of(CUgraphExec handle) {
  return process().graph_execs.find(handle, CUDA_ERROR_INVALID_VALUE);
}

inline std::vector<Node*> nodes_of(const CUgraphNode* handles, size_t count) {
  require(handles != nullptr || count == 0);
  std::vector<Node*> nodes;
  for (size_t i = 0; i < count; ++i) nodes.push_back(node_of(handles[i]).get());
  return nodes;
}

// The operation of that kind in a node; throws CUDA_ERROR_INVALID_VALUE when the node does something else.
template <typename Op>
Op& operation_in(Node& node) {
  auto* op = std::get_if<Op>(&node.operation);
  require(op != nullptr);
  return *op;
}

// The node in what is launched that came from this one.
inline Node& launched(GraphExec& exec, CUgraphNode handle) {
  Node* found = exec.graph->cloned_from(node_of(handle)->id);
  require(found != nullptr);
  return *found;
}

// Edges can only be whole: nothing here starts before what it follows has ended.
inline void only_whole_edges(const CUgraphEdgeData* edges, size_t count) {
  for (size_t i = 0; edges != nullptr && i < count; ++i)
    require(edges[i].type == CU_GRAPH_DEPENDENCY_TYPE_DEFAULT && edges[i].from_port == 0 && edges[i].to_port == 0,
            CUDA_ERROR_NOT_SUPPORTED);
}

// Gives out a list in the way of the driver: `count` alone asks how many there are; what is left of the room is nulls.
template <typename Item, typename Each>
void give(const std::vector<Item>& items, size_t* count, Each&& put) {
  require(count != nullptr);
  size_t room = *count;
  for (size_t i = 0; i < room; ++i) put(i, i < items.size() ? &items[i] : nullptr);
  *count = std::min(room, items.size());
}

}  // namespace sim
