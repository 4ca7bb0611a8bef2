// The lock of the queue's one end.
#pragma once

#include <atomic>

#include "../prim/thread.h"

namespace torpor::vm {

// Released by a plain store: an instruction that locks the bus would wait for what was written to the slot, whose lines come
// from the submitter's processor. Held for some hundred nanoseconds, and across a fork.
//
// A SpinLock of prim/ asks the kernel for the process id whenever it is taken, which would be a good part of what a call may
// cost here. It needs that to tell a holder that was left behind at a fork; this one's holder at a fork is the thread that forks.
class Adding {
 public:
  void lock() {
    for (unsigned tries = 0; held_.exchange(true, std::memory_order_acquire); ++tries) {
      if (tries < kTries) {
        __builtin_ia32_pause();
      } else {
        thread::sleep_microseconds(kPauseUs);
      }
    }
  }
  void unlock() { held_.store(false, std::memory_order_release); }

 private:
  static constexpr unsigned kTries = 100;
  static constexpr long kPauseUs = 20;
  std::atomic<bool> held_{false};
};

}  // namespace torpor::vm
