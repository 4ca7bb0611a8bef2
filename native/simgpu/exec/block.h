// A block of threads in execution, and the thread of ours that executes it.
#pragma once

#include <array>
#include <atomic>
#include <vector>

#include "exec/warp.h"

namespace sim::exec {

// What all blocks of a launch share.
struct Grid {
  const Image& image;
  const ptx::Kernel& kernel;
  const Launch& launch;
  uint32_t threads = 0;         // of a block
  uint32_t shared_bytes = 0;    // of a block, static and dynamic
  uint32_t stack_bytes = 0;     // of a thread
  std::atomic<uint64_t> next{0};
  std::atomic<bool> stop{false};
  // What all blocks of a cooperative grid meet by; %envreg1 and 2 tell its address.
  alignas(64) std::array<uint32_t, 16> meeting{};
};

// One CPU thread of a launch, with what it remembers of the memory.
class Worker {
 public:
  explicit Worker(Grid& of) : grid(of) {}
  // The range around `address`, from memory or from the MemoryCheck; null for an illegal address.
  const MemoryCheck::Range* range(uint64_t address);
  Grid& grid;
  MemoryCheck::Range recent{};  // the last one that answered

 private:
  std::array<MemoryCheck::Range, 16> known_{};
  unsigned oldest_ = 0;
};

class Block {
 public:
  Block(Worker& worker, uint64_t number);
  // Runs all warps once, each for a while. False when the block has ended.
  bool run();

  // A group of lanes comes to a barrier.
  struct Barrier {
    uint32_t arrived = 0, expected = 0;  // threads; expected 0 = all that live
    uint32_t count = 0;                  // of true predicates
    uint32_t mode = 0;                   // of the reduction
  };
  Barrier& barrier(uint32_t number) { return barriers_[number & 15]; }
  void check_barriers();

  Worker& worker;
  Grid& grid;
  std::array<uint32_t, 3> position{};  // %ctaid
  uint64_t number = 0;
  std::byte* shared() { return shared_.get(); }

 private:
  bool release(uint32_t number);
  Bytes shared_;
  std::vector<std::unique_ptr<Warp>> warps_;
  std::array<Barrier, 16> barriers_{};
};

}  // namespace sim::exec
