// A sequence of launches as a graph of the driver's, launched in its place.
//
// Not thread safe. The context must be current in the submitter's calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "bargain.h"
#include "queue.h"
#include "sequence.h"

namespace torpor::vm {

// Item `i` of those that wait in the queue.
using Items = std::function<Item&(std::uint32_t i)>;

// Whether an item is a step, and which: not what cannot be merged.
bool step_of(const Item& item, Step& out);

class Merged {
 public:
  explicit Merged(std::vector<Step> steps) : steps_(std::move(steps)) {}
  ~Merged() { destroy(); }
  Merged(const Merged&) = delete;
  Merged& operator=(const Merged&) = delete;

  // Makes the graph, with the parameters of the items; and gives its parts the parameters that have changed since. False when
  // the driver refused something: then it must not be launched any more.
  bool build(const Items& items);
  bool update(const Items& items);
  bool launch() const;
  // Any thread that has the merger's lock, as long as the context is there. Launches that are under way come to their end.
  void destroy();

  const std::vector<Step>& steps() const { return steps_; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(steps_.size()); }
  bool built() const { return ready_ != nullptr; }

  std::uint32_t seen = 0;      // how often it waited in the queue as a whole, before it was built
  std::uint64_t last_use = 0;  // number of the merger's look
  Trial trial;

 private:
  bool make(const Items& items);
  CUresult add(std::size_t step, CUgraphNode& node);
  CUresult set(std::size_t step);
  CUDA_KERNEL_NODE_PARAMS launch_of(std::size_t step);

  std::vector<Step> steps_;
  std::vector<CUgraphNode> nodes_;
  std::vector<std::vector<std::byte>> values_;  // of the parameters, or the arguments, as the graph has them
  CUgraph graph_ = nullptr;
  CUgraphExec ready_ = nullptr;
  std::vector<bool> kernels_;  // which functions are kernels of a library
  std::size_t bytes_ = 0;
  void* extra_[5] = {};
};

}  // namespace torpor::vm
