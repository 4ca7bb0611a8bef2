// The gate: keeps threads out of the driver while the job is frozen.
//
// A call that submits work, changes driver state or reads what the driver gives away at a checkpoint holds a Scope; a call
// that waits for the GPU holds a Waiting. Closing the gate keeps new callers of both kinds out and waits until nobody is in
// a Scope; those in a Waiting leave when their work has ended, which await_waiting() sees to. With the gate open either
// costs two stores (a Waiting four), three loads and no shared write: each thread has its own slot, and the closer pays for
// the missing fence with a barrier across all threads of the process.
#pragma once

#include <atomic>
#include <cstdint>

namespace torpor::gate {

// One thread that was inside when the deadline passed. `call` is the name of the exported symbol.
struct Inside {
  std::int32_t tid;
  const char* call;
};

// What close() or await_waiting() found. `inside` names up to kNamed of the `count` threads that did not leave.
struct Report {
  static constexpr std::uint32_t kNamed = 32;
  bool drained;
  std::uint32_t count;
  Inside inside[kNamed];
};

// Closes the gate and waits until no other thread is inside, at most `timeout_ms`. On success callers wait outside until
// open(). On a missed deadline the gate is open again and the report says who was inside. One closer at a time; the
// closer must not be inside itself. Allocates nothing, calls no driver function.
Report close(std::uint32_t timeout_ms);

// With the gate closed: waits until no other thread waits for the GPU either, at most `timeout_ms`. On a missed deadline the
// gate is open again. A thread that was still in the driver, on its way out of a wait, when the driver gives its mappings
// away would read memory that is gone.
Report await_waiting(std::uint32_t timeout_ms);

// Opens the gate and wakes all who wait outside. Harmless when open.
void open();

bool is_closed();

// Forgets the threads of the parent in a child that was made without running fork handlers (a raw clone). To be called
// by the first thread that uses the driver in a child, while it is alone. Fork itself needs no call.
void after_fork();

namespace detail {

struct alignas(64) Slot {
  std::atomic<const char*> call;        // the call this thread is inside of; null when outside
  std::atomic<std::int32_t> owner_tid;  // 0 when the slot is free
  std::atomic<bool> waits;              // the call is a wait for the GPU
};

struct Thread {
  Slot* slot;           // null before the first gated call and after the thread's end
  std::uint32_t depth;  // nested scopes of a thread without a slot
};

extern std::atomic<std::uint32_t> closed;
extern constinit thread_local Thread thread __attribute__((tls_model("initial-exec")));

// What the constructor and the destructor of a Presence leave to others: closed gates, threads without a slot, nested calls.
// The first returns the slot that is to be emptied at the end, if any.
Slot* enter_slowly(Thread& self, const char* call, bool waits);
void leave_slowly(Thread& self, bool waits);

// For tests: how many slots were ever needed, and a lower limit for them.
std::uint32_t slots_ever_used();
void limit_slots(std::uint32_t limit);

}  // namespace detail

// Marks the calling thread as inside `call` (a name with static storage) for its lifetime. Waits while the gate is
// closed. Nests; a nested one never waits, and the outermost decides of which kind the thread is.
//
// A thread with a slot is inside when the slot names a call: a counter of its own for the depth would tie each call to the
// one before it. Inlined, since as a call it costs as much again.
template <bool kWaits>
class Presence {
 public:
  [[gnu::always_inline]] explicit Presence(const char* call) {
    detail::Thread& self = detail::thread;
    detail::Slot* const slot = self.slot;
    if (slot != nullptr && slot->call.load(std::memory_order_relaxed) == nullptr) [[likely]] {
      if constexpr (kWaits) slot->waits.store(true, std::memory_order_relaxed);
      slot->call.store(call, std::memory_order_release);
      std::atomic_signal_fence(std::memory_order_seq_cst);
      if (detail::closed.load(std::memory_order_acquire) == 0) [[likely]] {
        slot_ = slot;
        return;
      }
      slot->call.store(nullptr, std::memory_order_release);
    }
    slot_ = detail::enter_slowly(self, call, kWaits);
  }

  [[gnu::always_inline]] ~Presence() {
    if (slot_ != nullptr) [[likely]] {
      slot_->call.store(nullptr, std::memory_order_release);
      if constexpr (kWaits) slot_->waits.store(false, std::memory_order_release);
    } else {
      detail::leave_slowly(detail::thread, kWaits);
    }
  }

  Presence(const Presence&) = delete;
  Presence& operator=(const Presence&) = delete;

 private:
  detail::Slot* slot_;
};

using Scope = Presence<false>;
using Waiting = Presence<true>;

}  // namespace torpor::gate
