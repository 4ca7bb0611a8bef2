// Pinned host memory of the program in files that the keeper saves (cuMemHostAlloc, cuMemAllocHost): large pieces only, the
// rest is the driver's.
//
// For the driver it is registered memory, and stays that through a checkpoint: graphs know it by more than its address. The
// pages stay where they are and the program may use them all the time; CRIU is told that the files are somebody else's.
// Thread safe; callers hold a gate::Scope. A forked child has no part in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "../../abi/cuda_driver.h"
#include "../arena/contexts.h"

namespace torpor::pinned {

struct Allocation {
  void* base = nullptr;
  std::size_t size = 0;     // as asked for
  unsigned int flags = 0;   // CU_MEMHOSTALLOC_*, as asked for
  std::uint64_t owner = 0;  // id of its context
};

struct Totals {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
};

// Memory for the current context; nothing where the driver has to see to it, also to say what is wrong.
std::optional<void*> allocate(std::size_t size, unsigned int flags);

// How many there are.
std::size_t count();

// The allocation that holds an address. Costs one load where there is none at all.
std::optional<Allocation> holding(CUdeviceptr address);

// Gives an allocation back; the driver waits for what may use it. Nothing when there is none (any more) at that address.
std::optional<CUresult> release(void* base);

// Releases what an ended context owned.
void context_gone(const contexts::Context& context);

Totals totals();

}  // namespace torpor::pinned
