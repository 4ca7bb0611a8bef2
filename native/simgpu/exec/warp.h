// 32 threads that execute together.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "exec/code.h"
#include "exec/launch.h"

namespace sim::exec {

class Block;
class Worker;

// Ends a launch; thrown by an operation and caught in the worker.
struct Stop {
  Fault fault;
};

struct FreeBytes {
  void operator()(std::byte* bytes) const;
};
using Bytes = std::unique_ptr<std::byte, FreeBytes>;
Bytes zeroed(size_t size);  // aligned to 64; throws std::bad_alloc

// One call in progress. The lanes of all its fragments have their registers here.
struct Frame {
  const Function* function = nullptr;
  Bytes registers;
  const std::byte* constants = nullptr;  // end of them
  std::shared_ptr<Frame> caller;
  uint32_t return_to = 0;                // op of the caller
  const CallSite* site = nullptr;
  uint32_t depth = 0;
  uint32_t base = 0;                     // in each thread's stack
};

// Lanes at the same place in the same call. A warp without divergence has one.
struct Fragment {
  enum class State : uint8_t { ready, converging, at_barrier };
  uint32_t mask = 0, pc = 0;
  std::shared_ptr<Frame> frame;
  State state = State::ready;
  uint64_t last_run = 0;
  uint32_t barrier = 0;
  bool forced = false;  // does not wait for other lanes any more
};

inline constexpr uint32_t kPatience = 1024;  // backward branches of some lanes while others of the warp wait

class Warp {
 public:
  Warp(Block& block, uint32_t index, uint32_t lanes);
  void start(const Function& kernel);

  // Runs until every lane waits or has ended, or for a while. True when something ran.
  bool run();
  bool done() const { return fragments_.empty(); }  // between runs
  // Lets one group that waits for lanes which cannot come go on; false when there is none.
  bool force();
  // The barrier was passed; `value` is what its reduction gives.
  void release(uint32_t barrier, uint32_t value);
  // Lanes that wait at the barrier.
  uint32_t waiting(uint32_t barrier) const;
  uint32_t live() const;

  // For operations.
  const std::byte* at(int32_t offset) const { return (offset < 0 ? constants_ : registers_) + offset; }
  std::byte* at_register(int32_t offset) { return registers_ + offset; }
  template <typename T>
  const T* in(int32_t offset) const { return reinterpret_cast<const T*>(at(offset)); }
  template <typename T>
  T* out(int32_t offset) { return reinterpret_cast<T*>(at_register(offset)); }
  uint32_t predicate(int32_t offset) const { return *in<uint32_t>(offset); }
  void set_predicate(int32_t offset, uint32_t bits) {
    uint32_t& all = *out<uint32_t>(offset);
    all = (all & ~mask) | (bits & mask);
  }
  std::byte* stack(unsigned lane) { return stack_.get() + size_t{lane} * stack_bytes_; }
  uint32_t stack_bytes() const { return stack_bytes_; }
  const Frame& frame() const { return *current_.frame; }
  // Ends the launch; `lane` is the culprit.
  [[noreturn]] void fail(const Op& op, Fault::Kind kind, unsigned lane, const std::string& what);

  uint32_t mask = 0;  // lanes for which the operation runs
  Block& block;
  const uint32_t index;

 private:
  // warp.cpp: which lanes run next
  bool choose(bool rotate = false);
  void park(Fragment::State state = Fragment::State::ready);
  void merge();
  void resume(size_t fragment);
  bool step(const Op& op);
  bool converge(const Op& op, uint32_t lanes);
  bool pass_warp_barrier(uint32_t needed, uint32_t have);
  // calls.cpp, branches.cpp: each false when other lanes may have to run now
  bool branch(uint32_t taken, uint32_t target);
  bool branch_table(const Op& op, uint32_t lanes);
  bool call(const Op& op, uint32_t lanes);
  bool leave(const Op& op, uint32_t lanes);
  bool end(uint32_t lanes);
  bool barrier(const Op& op, uint32_t lanes);
  void builtin(const Op& op, const CallSite& site, Builtin which, uint32_t lanes);
  void put(uint32_t lanes, uint32_t pc);  // as a fragment of the current frame

  std::vector<Fragment> fragments_;  // not the current one
  Fragment current_;
  bool running_ = false;             // current_ is valid
  uint32_t limit_ = 0;               // when the pc reaches it, another fragment's turn may have come
  uint32_t spins_ = 0, budget_ = 0;
  uint64_t clock_ = 0;
  const Op* code_ = nullptr;
  std::byte* registers_ = nullptr;
  const std::byte* constants_ = nullptr;
  Bytes stack_;
  uint32_t stack_bytes_ = 0;
  const uint32_t lanes_;
};

}  // namespace sim::exec
