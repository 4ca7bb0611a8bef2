// Graphs: making them, and what follows what in them.
#include <fstream>

#include "capture.h"
#include "entry.h"
#include "graph_names.h"

using namespace sim;

namespace {

void give_nodes(const std::vector<Node*>& nodes, CUgraphNode* out, CUgraphEdgeData* edges, size_t* count) {
  require(count != nullptr);
  if (out == nullptr) {
    *count = nodes.size();
    return;
  }
  give(nodes, count, [&](size_t i, Node* const* node) {
    out[i] = node != nullptr ? (*node)->handle() : nullptr;
    if (edges != nullptr) edges[i] = {};
  });
}

void give_edges(CUgraph handle, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* edges, size_t* count) {
  require(count != nullptr && (from == nullptr) == (to == nullptr));
  std::vector<std::pair<Node*, Node*>> all;
  for (const auto& node : graph_of(handle)->nodes)
    for (Node* next : node->before) all.emplace_back(node.get(), next);
  if (from == nullptr) {
    *count = all.size();
    return;
  }
  give(all, count, [&](size_t i, const std::pair<Node*, Node*>* edge) {
    from[i] = edge != nullptr ? edge->first->handle() : nullptr;
    to[i] = edge != nullptr ? edge->second->handle() : nullptr;
    if (edges != nullptr) edges[i] = {};
  });
}

void connect(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to, const CUgraphEdgeData* edges,
             size_t count) {
  std::shared_ptr<Graph> graph = graph_of(handle);
  only_whole_edges(edges, count);
  std::vector<Node*> sources = nodes_of(from, count), targets = nodes_of(to, count);
  for (size_t i = 0; i < count; ++i) graph->connect(*sources[i], *targets[i]);
}

void disconnect(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to, const CUgraphEdgeData* edges,
                size_t count) {
  std::shared_ptr<Graph> graph = graph_of(handle);
  only_whole_edges(edges, count);
  std::vector<Node*> sources = nodes_of(from, count), targets = nodes_of(to, count);
  for (size_t i = 0; i < count; ++i) graph->disconnect(*sources[i], *targets[i]);
}

}  // namespace

SIM_API(cuGraphCreate, change, (CUgraph* out, unsigned flags), (out, flags)) {
  require(out != nullptr && flags == 0);
  auto graph = std::make_shared<Graph>();
  graph->listed = true;
  *out = process().graphs.add(std::move(graph));
}

SIM_API(cuGraphDestroy, change, (CUgraph handle), (handle)) {
  std::shared_ptr<Graph> graph = graph_of(handle);
  require(graph->owner == nullptr);
  for (const auto& capture : process().captures) require(capture->graph != graph, CUDA_ERROR_ILLEGAL_STATE);
  graph->unlist();
  process().graphs.remove(handle, CUDA_ERROR_INVALID_VALUE);
}

SIM_API(cuGraphClone, change, (CUgraph* out, CUgraph original), (out, original)) {
  require(out != nullptr);
  std::shared_ptr<Graph> source = graph_of(original);
  for (const auto& node : source->nodes) {
    auto type = type_of(node->operation);
    require(type != CU_GRAPH_NODE_TYPE_MEM_ALLOC && type != CU_GRAPH_NODE_TYPE_MEM_FREE, CUDA_ERROR_NOT_SUPPORTED);
  }
  std::shared_ptr<Graph> graph = source->clone();
  graph->list();
  *out = process().graphs.add(std::move(graph));
}

SIM_API(cuGraphNodeFindInClone, query, (CUgraphNode* out, CUgraphNode original, CUgraph clone),
        (out, original, clone)) {
  require(out != nullptr);
  Node* found = graph_of(clone)->cloned_from(node_of(original)->id);
  require(found != nullptr);
  *out = found->handle();
}

SIM_API(cuGraphDestroyNode, change, (CUgraphNode handle), (handle)) {
  std::shared_ptr<Node> node = node_of(handle);
  auto type = type_of(node->operation);
  require(type != CU_GRAPH_NODE_TYPE_MEM_ALLOC && type != CU_GRAPH_NODE_TYPE_MEM_FREE, CUDA_ERROR_NOT_SUPPORTED);
  for (const auto& capture : process().captures)
    require(capture->graph.get() != &node->graph, CUDA_ERROR_ILLEGAL_STATE);
  node->graph.remove(*node);
}

SIM_API(cuGraphNodeGetType, query, (CUgraphNode handle, CUgraphNodeType* out), (handle, out)) {
  require(out != nullptr);
  *out = type_of(node_of(handle)->operation);
}

SIM_API(cuGraphGetNodes, query, (CUgraph handle, CUgraphNode* out, size_t* count), (handle, out, count)) {
  std::vector<Node*> nodes;
  for (const auto& node : graph_of(handle)->nodes) nodes.push_back(node.get());
  give_nodes(nodes, out, nullptr, count);
}

SIM_API(cuGraphGetRootNodes, query, (CUgraph handle, CUgraphNode* out, size_t* count), (handle, out, count)) {
  std::vector<Node*> roots;
  for (const auto& node : graph_of(handle)->nodes)
    if (node->after.empty()) roots.push_back(node.get());
  give_nodes(roots, out, nullptr, count);
}

SIM_API(cuGraphGetEdges, query, (CUgraph handle, CUgraphNode* from, CUgraphNode* to, size_t* count),
        (handle, from, to, count)) {
  give_edges(handle, from, to, nullptr, count);
}

SIM_API(cuGraphGetEdges_v2, query,
        (CUgraph handle, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* edges, size_t* count),
        (handle, from, to, edges, count)) {
  give_edges(handle, from, to, edges, count);
}

SIM_API(cuGraphNodeGetDependencies, query, (CUgraphNode handle, CUgraphNode* out, size_t* count),
        (handle, out, count)) {
  give_nodes(node_of(handle)->after, out, nullptr, count);
}

SIM_API(cuGraphNodeGetDependencies_v2, query,
        (CUgraphNode handle, CUgraphNode* out, CUgraphEdgeData* edges, size_t* count), (handle, out, edges, count)) {
  give_nodes(node_of(handle)->after, out, edges, count);
}

SIM_API(cuGraphNodeGetDependentNodes, query, (CUgraphNode handle, CUgraphNode* out, size_t* count),
        (handle, out, count)) {
  give_nodes(node_of(handle)->before, out, nullptr, count);
}

SIM_API(cuGraphNodeGetDependentNodes_v2, query,
        (CUgraphNode handle, CUgraphNode* out, CUgraphEdgeData* edges, size_t* count), (handle, out, edges, count)) {
  give_nodes(node_of(handle)->before, out, edges, count);
}

SIM_API(cuGraphAddDependencies, change,
        (CUgraph handle, const CUgraphNode* from, const CUgraphNode* to, size_t count), (handle, from, to, count)) {
  connect(handle, from, to, nullptr, count);
}

SIM_API(cuGraphAddDependencies_v2, change,
        (CUgraph handle, const CUgraphNode* from, const CUgraphNode* to, const CUgraphEdgeData* edges, size_t count),
        (handle, from, to, edges, count)) {
  connect(handle, from, to, edges, count);
}

SIM_API(cuGraphRemoveDependencies, change,
        (CUgraph handle, const CUgraphNode* from, const CUgraphNode* to, size_t count), (handle, from, to, count)) {
  disconnect(handle, from, to, nullptr, count);
}

SIM_API(cuGraphRemoveDependencies_v2, change,
        (CUgraph handle, const CUgraphNode* from, const CUgraphNode* to, const CUgraphEdgeData* edges, size_t count),
        (handle, from, to, edges, count)) {
  disconnect(handle, from, to, edges, count);
}

SIM_API(cuGraphDebugDotPrint, query, (CUgraph handle, const char* path, unsigned flags), (handle, path, flags)) {
  require(path != nullptr);
  std::ofstream file(path);
  file << dot(*graph_of(handle), flags);
  require(file.flush().good(), CUDA_ERROR_OPERATING_SYSTEM);
}
