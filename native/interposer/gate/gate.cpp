#include "gate.h"

#include <pthread.h>
#include <unistd.h>

#include "../prim/barrier.h"
#include "../prim/thread.h"

namespace torpor::gate {
namespace detail {

constinit std::atomic<std::uint32_t> closed{0};
constinit thread_local Thread thread __attribute__((tls_model("initial-exec"))) = {nullptr, 0};

}  // namespace detail

namespace {

using detail::Slot;
using detail::Thread;

// 64 bytes each, untouched pages cost nothing. Threads beyond that share one counter.
constexpr std::uint32_t kSlots = 16384;
constinit Slot slots[kSlots];
constinit std::atomic<std::uint32_t> slot_limit{kSlots};
constinit std::atomic<std::uint32_t> slots_in_use{0};  // every slot ever claimed has a lower index
constinit std::atomic<std::uint32_t> overflow{0};      // threads inside that found no slot
constinit std::atomic<std::uint32_t> overflow_waiting{0};  // and those of them that wait for the GPU
constinit std::atomic<std::int32_t> process{0};        // whose slots these are
constinit std::atomic<std::uint32_t> exit_key_made{0};
pthread_key_t exit_key;

// A forked child has none of the parent's other threads, and an open gate. Only one thread of the child does this.
void adopt_process() {
  std::int32_t owner = process.load(std::memory_order_acquire);
  const std::int32_t self = ::getpid();
  if (owner == self || !process.compare_exchange_strong(owner, self)) return;
  const Slot* own = detail::thread.slot;
  for (std::uint32_t i = 0; i < slots_in_use.load(std::memory_order_relaxed); ++i) {
    if (&slots[i] == own) {
      slots[i].owner_tid.store(thread::id(), std::memory_order_relaxed);
    } else {
      slots[i].call.store(nullptr, std::memory_order_relaxed);
      slots[i].waits.store(false, std::memory_order_relaxed);
      slots[i].owner_tid.store(0, std::memory_order_relaxed);
    }
  }
  overflow.store(0, std::memory_order_relaxed);
  overflow_waiting.store(0, std::memory_order_relaxed);
  open();
}

void release_at_exit(void* value) {
  auto* slot = static_cast<Slot*>(value);
  detail::thread.slot = nullptr;
  slot->call.store(nullptr, std::memory_order_release);
  slot->waits.store(false, std::memory_order_release);
  slot->owner_tid.store(0, std::memory_order_release);
}

// Made at the first gated call, never at load time.
bool exit_key_ready() {
  enum : std::uint32_t { kUnmade, kMaking, kMade, kFailed };
  std::uint32_t state = exit_key_made.load(std::memory_order_acquire);
  if (state == kUnmade && exit_key_made.compare_exchange_strong(state, kMaking)) {
    const bool made = ::pthread_key_create(&exit_key, release_at_exit) == 0;
    process.store(::getpid(), std::memory_order_release);
    ::pthread_atfork(nullptr, nullptr, adopt_process);
    exit_key_made.store(made ? kMade : kFailed, std::memory_order_release);
    thread::wake_all(exit_key_made);
    return made;
  }
  while ((state = exit_key_made.load(std::memory_order_acquire)) == kMaking) thread::wait_while(exit_key_made, kMaking);
  return state == kMade;
}

// Always the lowest free one: as many slots are ever touched as threads live at once.
Slot* claim_free(std::int32_t tid) {
  const std::uint32_t limit = slot_limit.load(std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < limit; ++i) {
    std::int32_t nobody = 0;
    if (slots[i].owner_tid.load(std::memory_order_relaxed) != 0) continue;
    if (!slots[i].owner_tid.compare_exchange_strong(nobody, tid, std::memory_order_acq_rel)) continue;
    std::uint32_t used = slots_in_use.load(std::memory_order_relaxed);
    while (used <= i && !slots_in_use.compare_exchange_weak(used, i + 1, std::memory_order_acq_rel)) {
    }
    return &slots[i];
  }
  return nullptr;
}

// Gives back slots of threads that ended without running their destructors (a raw clone, a thread killed by exec).
void release_dead() {
  for (std::uint32_t i = 0; i < slots_in_use.load(std::memory_order_acquire); ++i) {
    std::int32_t tid = slots[i].owner_tid.load(std::memory_order_acquire);
    if (tid == 0 || thread::alive(tid)) continue;
    slots[i].call.store(nullptr, std::memory_order_relaxed);
    slots[i].waits.store(false, std::memory_order_relaxed);
    slots[i].owner_tid.compare_exchange_strong(tid, 0, std::memory_order_acq_rel);
  }
}

Slot* claim_slot() {
  if (!exit_key_ready()) return nullptr;
  const std::int32_t tid = thread::id();
  Slot* slot = claim_free(tid);
  if (slot == nullptr) {
    release_dead();
    slot = claim_free(tid);
  }
  if (slot != nullptr && ::pthread_setspecific(exit_key, slot) != 0) {
    slot->owner_tid.store(0, std::memory_order_release);
    slot = nullptr;
  }
  return slot;
}

// Those that wait for the GPU count only if `waiting`.
std::uint32_t count_inside(bool waiting, Report* report) {
  std::uint32_t count = overflow.load(std::memory_order_acquire);
  if (waiting) count += overflow_waiting.load(std::memory_order_acquire);
  if (report != nullptr && count != 0) report->inside[0] = {0, "a call in a thread beyond the gate's slots"};
  std::uint32_t named = count != 0 ? 1 : 0;
  const Slot* own = detail::thread.slot;
  for (std::uint32_t i = 0; i < slots_in_use.load(std::memory_order_acquire); ++i) {
    const char* call = slots[i].call.load(std::memory_order_acquire);
    if (call == nullptr || &slots[i] == own) continue;
    // A mark that changes meanwhile belongs to another call of that thread, which the closed gate turns away.
    if (!waiting && slots[i].waits.load(std::memory_order_acquire)) continue;
    ++count;
    if (report != nullptr && named < Report::kNamed) {
      report->inside[named++] = {slots[i].owner_tid.load(std::memory_order_relaxed), call};
    }
  }
  return count;
}

// Waits until all have left; on a missed deadline opens the gate and says who has not.
Report wait_until_left(bool waiting, std::uint32_t timeout_ms) {
  const std::uint64_t deadline = thread::monotonic_microseconds() + std::uint64_t{timeout_ms} * 1000U;
  Report report{};
  for (long pause = 10; count_inside(waiting, nullptr) != 0; pause = pause < 200 ? pause * 2 : 200) {
    if (thread::monotonic_microseconds() >= deadline) {
      release_dead();
      report.count = count_inside(waiting, &report);
      if (report.count != 0) {
        open();
        return report;
      }
    }
    thread::sleep_microseconds(pause);
  }
  report.drained = true;
  return report;
}

}  // namespace

namespace detail {

Slot* enter_slowly(Thread& self, const char* call, bool waits) {
  // Whoever is inside already never waits, or a gate that closes would wait for it and it for the gate.
  if (self.slot != nullptr && self.slot->call.load(std::memory_order_relaxed) != nullptr) return nullptr;
  if (self.depth != 0) {
    ++self.depth;
    return nullptr;
  }
  std::atomic<std::uint32_t>& beyond = waits ? overflow_waiting : overflow;
  for (;;) {
    if (self.slot == nullptr) self.slot = claim_slot();
    if (self.slot != nullptr) {
      self.slot->waits.store(waits, std::memory_order_relaxed);
      self.slot->call.store(call, std::memory_order_seq_cst);
    } else {
      beyond.fetch_add(1, std::memory_order_seq_cst);
    }
    if (closed.load(std::memory_order_seq_cst) == 0) break;
    if (self.slot != nullptr) {
      self.slot->call.store(nullptr, std::memory_order_seq_cst);
      self.slot->waits.store(false, std::memory_order_seq_cst);
    } else {
      beyond.fetch_sub(1, std::memory_order_seq_cst);
    }
    adopt_process();
    thread::wait_while(closed, 1);
  }
  if (self.slot == nullptr) self.depth = 1;
  return self.slot;
}

void leave_slowly(Thread& self, bool waits) {
  if (self.depth == 0 || --self.depth != 0) return;
  (waits ? overflow_waiting : overflow).fetch_sub(1, std::memory_order_seq_cst);
}

std::uint32_t slots_ever_used() { return slots_in_use.load(std::memory_order_acquire); }

void limit_slots(std::uint32_t limit) { slot_limit.store(limit, std::memory_order_relaxed); }

}  // namespace detail

Report close(std::uint32_t timeout_ms) {
  detail::closed.store(1, std::memory_order_seq_cst);
  barrier_all_threads();
  return wait_until_left(false, timeout_ms);
}

Report await_waiting(std::uint32_t timeout_ms) { return wait_until_left(true, timeout_ms); }

void open() {
  detail::closed.store(0, std::memory_order_seq_cst);
  thread::wake_all(detail::closed);
}

void after_fork() {
  if (process.load(std::memory_order_acquire) != 0) adopt_process();
}

bool is_closed() { return detail::closed.load(std::memory_order_acquire) != 0; }

}  // namespace torpor::gate
