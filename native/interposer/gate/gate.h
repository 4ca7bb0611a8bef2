// The gate: stops new GPU work while the job is frozen.
//
// A call that submits work or changes driver state holds a Scope. Closing the gate keeps new callers out and waits until
// nobody is inside. With the gate open a Scope costs one store, one load and no shared write: each thread has its own
// slot, and the closer pays for the missing fence with a barrier across all threads of the process.
#pragma once

#include <atomic>
#include <cstdint>

namespace torpor::gate {

// One thread that was inside when the deadline passed. `call` is the name of the exported symbol.
struct Inside {
  std::int32_t tid;
  const char* call;
};

// What close() found. `inside` names up to kNamed of the `count` threads that did not leave.
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

// Opens the gate and wakes all who wait. Harmless when open.
void open();

bool is_closed();

// Forgets the threads of the parent in a child that was made without running fork handlers (a raw clone). To be called
// by the first thread that uses the driver in a child, while it is alone. Fork itself needs no call.
void after_fork();

namespace detail {

struct alignas(64) Slot {
  std::atomic<const char*> call;        // the call this thread is inside of; null when outside
  std::atomic<std::int32_t> owner_tid;  // 0 when the slot is free
};

struct Thread {
  Slot* slot;           // null before the first gated call and after the thread's end
  std::uint32_t depth;  // nested scopes; a thread inside may enter again
};

extern std::atomic<std::uint32_t> closed;
extern constinit thread_local Thread thread __attribute__((tls_model("initial-exec")));

void enter_slowly(Thread& self, const char* call);
void leave_slowly();

// For tests: how many slots were ever needed, and a lower limit for them.
std::uint32_t slots_ever_used();
void limit_slots(std::uint32_t limit);

}  // namespace detail

// Marks the calling thread as inside `call` (a name with static storage) for its lifetime. Waits while the gate is
// closed. Nests; a nested scope never waits.
class Scope {
 public:
  explicit Scope(const char* call) : slot_(nullptr) {
    detail::Thread& self = detail::thread;
    if (self.depth++ != 0) return;
    if (self.slot != nullptr) [[likely]] {
      self.slot->call.store(call, std::memory_order_relaxed);
      std::atomic_signal_fence(std::memory_order_seq_cst);
      if (detail::closed.load(std::memory_order_acquire) == 0) [[likely]] {
        slot_ = self.slot;
        return;
      }
    }
    detail::enter_slowly(self, call);
    slot_ = self.slot;
  }

  ~Scope() {
    if (--detail::thread.depth != 0) return;
    if (slot_ != nullptr) [[likely]] {
      slot_->call.store(nullptr, std::memory_order_release);
    } else {
      detail::leave_slowly();
    }
  }

  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  detail::Slot* slot_;
};

}  // namespace torpor::gate
