// What has been seen to be right: a call that the driver took once is deferred when it comes again.
//
// Thus a bad launch is refused at the call that makes it, as a tuner relies on that tries configurations until one works.
// Callers hold a Turn, or have the gate to themselves.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "../../abi/cuda_driver.h"

namespace torpor::vm {

enum class Call : std::uint32_t { none, launch, graph_launch, event_record, event_wait, memory };

// What the driver's judgement of a call depends on. No padding: keys are compared byte by byte.
struct Key {
  // An attribute of a launch; only those with small values are deferred.
  struct Attribute {
    std::uint32_t id = 0;
    std::uint32_t unused = 0;
    std::array<std::byte, 16> value{};
  };
  static constexpr unsigned kAttributes = 4;

  Call call = Call::none;
  std::uint32_t shared_bytes = 0;
  std::uint64_t object = 0;  // the function, graph or event; null for work on memory
  std::uint64_t context = 0;
  std::uint64_t stream = 0;
  std::array<std::uint32_t, 3> block{};
  std::array<std::uint32_t, 3> grid{};  // counts only with attributes, and for kernels with clusters
  std::array<Attribute, kAttributes> attributes{};

  bool operator==(const Key& other) const { return std::memcmp(this, &other, sizeof *this) == 0; }
};
static_assert(sizeof(Key) == 56 + 4 * 24);

// Where the driver puts a kernel's parameters.
struct Layout {
  struct Parameter {
    std::size_t offset, size;
  };
  std::vector<Parameter> parameters;
  std::size_t bytes = 0;
  bool grid_counts = false;  // the kernel has clusters of its own, into which a grid must divide
};

// Asks the driver. False where it cannot tell, or they are more than an item holds.
bool layout_of(CUfunction function, Layout& out);

namespace proofs {

// The layout that was given for it; null when this call was never right, or has been forgotten. Valid while the Turn lasts.
const Layout* find(const Key& key);
void add(const Key& key, Layout&& layout);

// Counts how often anything was forgotten. What was seen to be right before may have been forgotten meanwhile; any thread.
std::uint64_t generation();

// To be called before the object's destruction, since the driver may give its handle to a new one at once.
void forget_object(std::uint64_t object);
void forget_stream(CUstream stream);
void forget_waits();
void forget_all();

}  // namespace proofs
}  // namespace torpor::vm
