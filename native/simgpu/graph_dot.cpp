#include <sstream>

#include "graph.h"
#include "module.h"

namespace sim {

namespace {

const char* title(CUgraphNodeType type) {
  switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return "KERNEL";
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return "MEMCPY";
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return "MEMSET";
    case CU_GRAPH_NODE_TYPE_HOST:
      return "HOST";
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return "GRAPH";
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return "EMPTY";
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return "WAIT_EVENT";
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return "EVENT_RECORD";
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      return "MEM_ALLOC";
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return "MEM_FREE";
    default:
      return "BATCH_MEM_OP";
  }
}

void write(std::ostream& out, const Graph& graph, unsigned flags, const char* indent) {
  for (const auto& node : graph.nodes) {
    out << indent << "\"" << node->id << "\" [shape=record label=\"" << node->id << " | "
        << title(type_of(node->operation));
    if (auto* kernel = std::get_if<KernelOp>(&node->operation)) {
      out << " | " << kernel->function->kernel.name << " \\<\\<\\<";
      for (uint32_t each : kernel->grid) out << each << ",";
      for (uint32_t each : kernel->block) out << each << ",";
      out << kernel->shared << "\\>\\>\\>";
    }
    if (flags & (CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES | CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE)) out << " | " << node->handle();
    out << "\"]\n";
    for (const Node* next : node->before) out << indent << "\"" << node->id << "\" -> \"" << next->id << "\"\n";
    auto* child = std::get_if<ChildOp>(&node->operation);
    if (child == nullptr) continue;
    out << indent << "subgraph \"cluster_" << node->id << "\" {\n";
    write(out, *child->graph, flags, "    ");
    out << indent << "}\n";
  }
}

}  // namespace

std::string dot(const Graph& graph, unsigned flags) {
  std::ostringstream out;
  out << "digraph graph_ {\n";
  write(out, graph, flags, "  ");
  out << "}\n";
  return out.str();
}

}  // namespace sim
