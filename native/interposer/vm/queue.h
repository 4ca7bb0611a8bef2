// Deferred calls: a bounded queue in the order in which the program made them, and the thread that makes them in its stead.
//
// There is one queue for all threads and contexts (of one device): if one call returned before another was made, the
// driver sees them in that order, as it would natively. Nothing is allocated per call. A forked child has an empty queue
// for good.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "../../abi/cuda_driver.h"
#include "settle.h"

namespace torpor::vm {

// One deferred call. `run` makes it, in the submitter thread and with `context` current. What a call writes here comes from
// the submitter's cache: most need the first two lines and one of parameters.
struct alignas(64) Item {
  static constexpr std::size_t kArguments = 512, kParameters = 32768;  // a kernel takes 32764 bytes at most
  enum class State : std::uint32_t { waiting, begun, out };

  CUresult (*run)(Item&);
  CUcontext context;
  std::uint64_t number;  // of all items that ever were in the queue
  std::atomic<State> state;
  std::size_t parameter_bytes;
  alignas(16) std::byte arguments[kArguments];    // of the call
  alignas(64) std::byte parameters[kParameters];  // of a kernel
};

// The right to add one item. While it lives no other thread adds one, so it must not outlive a few hundred nanoseconds.
// Holds a free slot, or none when the submitter cannot be started, or an error is waiting to be returned, or the caller is
// the submitter itself. Callers hold a gate::Scope.
class Turn {
 public:
  Turn();
  ~Turn();
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  Item* slot() const { return slot_; }
  // The item to come makes that earlier one superfluous as long as nobody looks in between: publish() takes it out, if it
  // still waits and no thread waits for the queue, whose next call might look.
  void supersede(std::uint64_t earlier) { superseded_ = earlier, supersedes_ = true; }
  // Adds the item that the slot holds. Once.
  void publish();

 private:
  bool locked_ = false, supersedes_ = false;
  std::uint64_t superseded_ = 0;
  Item* slot_ = nullptr;
};

// Keeps other threads from adding, without a place in the queue; never waits for one. For what Turn guards.
class Hold {
 public:
  Hold();
  ~Hold();
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

 private:
  bool locked_ = false;
};

// Drops an error that no call has returned yet, if it is about this context, which is gone.
void forgive(CUcontext gone);

// Waits until the queue is empty, at most until `deadline` (thread::monotonic_microseconds). The gate is closed, so nothing
// comes after. False when the driver still has not taken everything.
bool drained_by(std::uint64_t deadline);

// Why a call was left out.
enum class Drop : std::uint32_t {
  setting,  // what it sets is set
  wait,     // what it waits for has happened before in any case
  record,   // the event was recorded again before anyone looked
};
inline constexpr std::uint32_t kDrops = 3;

// What happened so far in this process.
struct Counts {
  std::uint64_t deferred = 0;   // calls that went through the queue
  std::uint64_t straight = 0;   // calls that could have, but were not proven, or while it did not pay
  std::array<std::uint64_t, kDrops> dropped{};  // calls that would have changed nothing
  std::uint64_t waits = 0;      // calls that found the queue not empty and waited
  std::uint64_t deepest = 0;    // items in the queue at once, as the submitter finds them every few items
  std::uint64_t queued = 0;     // items in the queue now
  std::uint64_t submitting_ns = 0;  // the submitter's time in the driver
  std::uint64_t waiting_ns = 0;     // the program's time in those waits, and for room
};
Counts counts();
void count_straight();
void count_dropped(Drop kind);

}  // namespace torpor::vm
