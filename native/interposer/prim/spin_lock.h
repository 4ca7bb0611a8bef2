// A lock for short, rare sections in a foreign process.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "thread.h"

namespace torpor {

// Held for microseconds and never across a driver or loader call. A forked child takes over a lock that a thread of its
// parent held at the fork, since nobody else would release it; what it guards must bear that.
class SpinLock {
 public:
  class Held {
   public:
    explicit Held(SpinLock& lock) : lock_(lock) {
      const std::int32_t process = ::getpid();
      for (unsigned tries = 0;; ++tries) {
        std::int32_t owner = 0;
        if (lock_.owner_.compare_exchange_strong(owner, process, std::memory_order_acquire)) return;
        if (owner != process && lock_.owner_.compare_exchange_strong(owner, process, std::memory_order_acquire)) return;
        if (tries > 100) thread::sleep_microseconds(10);
      }
    }
    ~Held() { lock_.owner_.store(0, std::memory_order_release); }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;

   private:
    SpinLock& lock_;
  };

 private:
  std::atomic<std::int32_t> owner_{0};  // process id of the holder; 0 when free
};

}  // namespace torpor
