// Threads that sleep until a counter has got somewhere. Whoever moves the counter wakes them, though not at every step.
#pragma once

#include <atomic>
#include <cstdint>

#include "../prim/thread.h"

namespace torpor::vm {

class Sleepers {
 public:
  using Word = std::atomic<std::uint32_t>;

  // Sleeps until `counter` has reached `target`.
  void sleep(Word& counter, std::uint32_t target) {
    arrive();
    name(target);
    for (;;) {
      const std::uint32_t now = counter.load(std::memory_order_seq_cst);
      if (is_before(now, target)) {
        thread::wait_while(counter, now);
      } else {
        break;
      }
    }
    leave();
  }

  // The counter has just got to `at`: wakes those that may have waited for that.
  void wake(Word& counter, std::uint32_t at) const {
    if (is_wanted(at)) thread::wake_all(counter);
  }

  // The steps of sleep(). A thread that has arrived leaves only when its target is reached, and names it after it is counted. So
  // while one sleeps alone the last name is its own, or that of one that has left, which lies behind; and as soon as there are
  // two, each step is wanted. Nobody may count on a later step to wake him: the driver may first want what he does next.
  void arrive() { count_.fetch_add(1, std::memory_order_seq_cst); }
  void name(std::uint32_t target) { last_.store(target, std::memory_order_seq_cst); }
  void leave() { count_.fetch_sub(1, std::memory_order_seq_cst); }

  bool is_wanted(std::uint32_t at) const {
    const std::uint32_t last = last_.load(std::memory_order_seq_cst);  // first, or its thread may have come after the count
    const std::uint32_t count = count_.load(std::memory_order_seq_cst);
    return count > 1 || (count == 1 && !is_before(at, last));
  }

  // In the child of a fork, where nobody sleeps.
  void forget() { count_.store(0, std::memory_order_relaxed); }

 private:
  static bool is_before(std::uint32_t one, std::uint32_t other) { return static_cast<std::int32_t>(one - other) < 0; }

  Word count_{0};
  Word last_{0};  // target that was named
};

}  // namespace torpor::vm
