// Handing the arena's blocks out of the process and taking them back, while the gate is closed and nothing runs.
//
// Used by the control thread only. Calls the real driver and needs no current context. Every function leaves the
// arena as it was when it fails, unless it says otherwise.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "../../abi/cuda_driver.h"
#include "descriptor.h"

namespace torpor::arena {

// A block as the control protocol describes it. Memory that the program mapped itself has its handle for an address.
struct BlockRecord {
  static constexpr std::uint32_t kShared = 1;  // other records, of this process or another, may be the same memory

  std::uint64_t address;
  std::uint64_t size;
  std::int32_t device;
  std::uint32_t flags;
  std::uint64_t reserved;
};
static_assert(sizeof(BlockRecord) == 32);

struct Totals {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::uint64_t largest = 0;
  std::uint64_t imported = 0;
  std::uint64_t away = 0;
  std::uint64_t kept = 0;  // neither exported since settle() nor away: releasing these would lose their bytes
  std::uint64_t unshareable = 0;  // shared, and nothing is left by which its sharers could be told to be the same
};

// What went wrong; `code` is CUDA_SUCCESS where the request itself was wrong.
struct Failure {
  CUresult code = CUDA_SUCCESS;
  std::string message;
  std::uint64_t bytes_needed = 0;  // with CUDA_ERROR_OUT_OF_MEMORY
};

struct Moved {
  std::uint64_t blocks = 0;
  std::uint64_t bytes = 0;
};

class Handover {
 public:
  static bool enabled();
  static Totals totals();

  // After the gate closed and the contexts are idle: releases what waited for that, and begins a new round of exports.
  static void settle();

  // Exports blocks [first, first + count) in ascending address order. A block that came from outside and whose descriptor
  // is not kept is replaced by a fresh copy first, so blocks before the failing one may have been replaced. The caller
  // holds a ForkHold.
  static bool export_blocks(std::uint64_t first, std::uint64_t count, std::vector<BlockRecord>& records,
                            std::vector<Descriptor>& descriptors, Failure& failure);

  // Unmaps and releases every block; all must have been exported. Descriptors of the program's that lead to shared memory
  // lead to /dev/null until it is back.
  static bool release_all(Moved& moved, Failure& failure);

  // Maps one block that is away from its descriptor, which stays the caller's. The caller holds a ForkHold.
  static bool take_back(const BlockRecord& record, const Descriptor& descriptor, Failure& failure);

 private:
  template <typename Visit>
  static bool each_item(class Arena& arena, Visit visit);
};

}  // namespace torpor::arena
