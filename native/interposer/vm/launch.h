// A launch of a kernel in the queue: the arguments of the item; its parameters follow in `parameters`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "proofs.h"
#include "queue.h"

namespace torpor::vm {

struct Launch {
  CUfunction function;
  std::array<std::uint32_t, 3> grid, block;
  std::uint32_t shared_bytes;
  std::uint32_t attribute_count;
  CUstream stream;
  std::array<CUlaunchAttribute, Key::kAttributes> attributes;
};

// Bytes of it that say anything.
inline std::size_t used_of(const Launch& launch) {
  return offsetof(Launch, attributes) + launch.attribute_count * sizeof launch.attributes[0];
}

// Makes it: what `run` of such an item is.
CUresult launch(Item& item);

}  // namespace torpor::vm
