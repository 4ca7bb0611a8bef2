#include "graph.h"

#include <algorithm>
#include <atomic>
#include <map>

#include "failure.h"
#include "process.h"

namespace sim {

namespace {

uint64_t next_node_id() {
  static std::atomic<uint64_t> next{1};
  return next++;
}

bool contains(const std::vector<Node*>& list, const Node* node) {
  return std::find(list.begin(), list.end(), node) != list.end();
}

}  // namespace

GraphMemory::~GraphMemory() {
  if (!live) process().memory.remove(allocation->base);
}

Node::Node(Graph& in, Operation what) : graph(in), id(next_node_id()), operation(std::move(what)) {
  if (auto* child = std::get_if<ChildOp>(&operation)) child->graph->owner = this;
}

Node& Graph::add(Operation operation, const std::vector<Node*>& after) {
  for (size_t i = 0; i < after.size(); ++i)
    require(&after[i]->graph == this && std::find(after.begin(), after.begin() + static_cast<ptrdiff_t>(i), after[i]) ==
                                            after.begin() + static_cast<ptrdiff_t>(i));
  auto node = std::make_shared<Node>(*this, std::move(operation));
  for (Node* each : after) {
    each->before.push_back(node.get());
    node->after.push_back(each);
  }
  nodes.push_back(node);
  if (listed) {
    process().graph_nodes.add(node);
    if (auto* child = std::get_if<ChildOp>(&node->operation)) {
      process().graphs.add(child->graph);
      child->graph->list();
    }
  }
  return *node;
}

void Graph::connect(Node& from, Node& to) {
  require(&from.graph == this && &to.graph == this && &from != &to && !contains(to.after, &from));
  to.after.push_back(&from);
  from.before.push_back(&to);
}

void Graph::disconnect(Node& from, Node& to) {
  require(&from.graph == this && &to.graph == this && contains(to.after, &from));
  std::erase(to.after, &from);
  std::erase(from.before, &to);
}

void Graph::remove(Node& node) {
  for (Node* each : node.after) std::erase(each->before, &node);
  for (Node* each : node.before) std::erase(each->after, &node);
  if (auto* child = std::get_if<ChildOp>(&node.operation); child != nullptr && listed) {
    child->graph->unlist();
    process().graphs.remove(child->graph->handle(), CUDA_ERROR_INVALID_VALUE);
  }
  if (listed) process().graph_nodes.remove(node.handle(), CUDA_ERROR_INVALID_VALUE);
  std::erase_if(nodes, [&](const auto& each) { return each.get() == &node; });
}

std::shared_ptr<Graph> Graph::clone() const {
  auto copy = std::make_shared<Graph>();
  std::map<const Node*, Node*> twin;
  for (const auto& node : nodes) {
    Operation operation = node->operation;
    if (auto* child = std::get_if<ChildOp>(&operation)) child->graph = child->graph->clone();
    copy->nodes.push_back(std::make_shared<Node>(*copy, std::move(operation)));
    Node& made = *copy->nodes.back();
    made.original = node->id;
    made.attributes = node->attributes;
    twin[node.get()] = &made;
  }
  for (const auto& node : nodes) {
    for (const Node* each : node->after) twin[node.get()]->after.push_back(twin[each]);
    for (const Node* each : node->before) twin[node.get()]->before.push_back(twin[each]);
  }
  copy->user_objects = user_objects;
  return copy;
}

Node* Graph::cloned_from(uint64_t id) const {
  for (const auto& node : nodes) {
    if (node->original == id) return node.get();
    if (auto* child = std::get_if<ChildOp>(&node->operation))
      if (Node* found = child->graph->cloned_from(id)) return found;
  }
  return nullptr;
}

std::vector<Node*> Graph::in_order() const {
  std::map<const Node*, size_t> missing;
  std::vector<Node*> order;
  for (const auto& node : nodes) {
    missing[node.get()] = node->after.size();
    if (node->after.empty()) order.push_back(node.get());
  }
  for (size_t i = 0; i < order.size(); ++i)
    for (Node* next : order[i]->before)
      if (--missing[next] == 0) order.push_back(next);
  return order;
}

void Graph::list() {
  listed = true;
  for (const auto& node : nodes) {
    process().graph_nodes.add(node);
    if (auto* child = std::get_if<ChildOp>(&node->operation)) {
      process().graphs.add(child->graph);
      child->graph->list();
    }
  }
}

void Graph::unlist() {
  listed = false;
  for (const auto& node : nodes) {
    process().graph_nodes.remove(node->handle(), CUDA_ERROR_INVALID_VALUE);
    if (auto* child = std::get_if<ChildOp>(&node->operation)) {
      child->graph->unlist();
      process().graphs.remove(child->graph->handle(), CUDA_ERROR_INVALID_VALUE);
    }
  }
}

}  // namespace sim
