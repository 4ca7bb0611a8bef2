// Graphs: operations and what each has to wait for; and what is made of them to be launched.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "abi.h"
#include "address_map.h"
#include "operation.h"
#include "user_object.h"

namespace sim {

class Graph;
struct GraphExec;

// The memory of an allocation node. It has its address from the node's creation on; `live` says whether a launch has
// given it out and nobody has freed it since. What is live when its graph goes stays until it is freed.
struct GraphMemory {
  explicit GraphMemory(AllocationRef made) : allocation(std::move(made)) {}
  ~GraphMemory();
  const AllocationRef allocation;
  bool live = false;
};

struct Node {
  Node(Graph& in, Operation what);

  Graph& graph;
  const uint64_t id;
  uint64_t original = 0;              // the id of the node that this one was cloned from
  Operation operation;
  std::vector<Node*> after, before;   // what it depends on, what depends on it; in the order of their making
  bool enabled = true;                // in what is launched only
  std::vector<void*> parameters;      // what cuGraphKernelNodeGetParams gave out
  std::vector<CUlaunchAttribute> attributes;

  CUgraphNode handle() { return reinterpret_cast<CUgraphNode>(this); }
};

// Guarded by the process lock. Circles are found when it is instantiated, as by the driver.
class Graph {
 public:
  CUgraph handle() { return reinterpret_cast<CUgraph>(this); }

  // Throws CUDA_ERROR_INVALID_VALUE when a dependency is in another graph or named twice.
  Node& add(Operation operation, const std::vector<Node*>& after);
  void connect(Node& from, Node& to);  // throws CUDA_ERROR_INVALID_VALUE when it is there already
  void disconnect(Node& from, Node& to);
  void remove(Node& node);

  std::shared_ptr<Graph> clone() const;
  Node* cloned_from(uint64_t id) const;  // the node that was cloned from that one, or null
  std::vector<Node*> in_order() const;   // dependencies first

  // Handles of the nodes are valid while they are listed. What is launched is a clone whose nodes are not.
  void list();
  void unlist();

  std::vector<std::shared_ptr<Node>> nodes;  // in the order of their making
  Node* owner = nullptr;                     // the node that this is the child graph of
  bool listed = false;
  std::weak_ptr<GraphExec> instantiated;  // with allocation nodes there can only be one
  std::vector<std::shared_ptr<UserObjectHold>> user_objects;
};

// The operation of an allocation node, with its memory. Throws CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_INVALID_VALUE.
AllocOp allocation_node(const CUDA_MEM_ALLOC_NODE_PARAMS& what);

// What cuGraphInstantiate makes.
struct GraphExec {
  std::shared_ptr<Graph> graph;  // a clone of its own
  unsigned long long flags = 0;
  Ticket last;                   // of the launch before: launches of one follow each other

  CUgraphExec handle() { return reinterpret_cast<CUgraphExec>(this); }
};

// Throws CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_INVALID_VALUE.
std::shared_ptr<GraphExec> instantiate(Graph& graph, unsigned long long flags);

// Resolves everything, then puts it all into the stream. Throws CUDA_ERROR_INVALID_VALUE when memory that the last
// launch took is still taken, and what resolving throws: then nothing was submitted.
void launch(GraphExec& exec, const std::shared_ptr<Stream>& stream);

// Whether what is launched can become what `graph` says; if so it does. `to` is the node that stands in the way.
struct Update {
  CUgraphExecUpdateResult result;
  Node* to;
};
Update update(GraphExec& exec, const Graph& graph);

// The graph in the language of Graphviz.
std::string dot(const Graph& graph, unsigned flags);

}  // namespace sim
