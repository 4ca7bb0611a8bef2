// The few kernel calls about threads that the interposer needs. None changes errno.
#pragma once

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <ctime>

#include "errno_kept.h"

namespace torpor::thread {

// Kernel id of the calling thread; asked anew each time, so that it is right after fork and raw clone.
inline std::int32_t id() { return static_cast<std::int32_t>(::syscall(SYS_gettid)); }

// A number of the calling thread that no other thread of the process has had: kernel ids come again.
inline std::uint64_t serial() {
  static constinit std::atomic<std::uint64_t> last{0};
  static constinit thread_local std::uint64_t own __attribute__((tls_model("initial-exec"))) = 0;
  if (own == 0) own = last.fetch_add(1, std::memory_order_relaxed) + 1;
  return own;
}

// Whether a thread of this process with that kernel id exists.
inline bool alive(std::int32_t tid) {
  const ErrnoKept kept;
  return ::syscall(SYS_tgkill, ::getpid(), tid, 0) == 0 || errno != ESRCH;
}

// How many processors the calling thread may use; 1 where the kernel does not tell.
inline unsigned processors() {
  const ErrnoKept kept;
  cpu_set_t usable;
  return ::sched_getaffinity(0, sizeof usable, &usable) == 0 ? static_cast<unsigned>(CPU_COUNT(&usable)) : 1;
}

// Sleeps while `*word == value`, until woken; may return early.
inline void wait_while(std::atomic<std::uint32_t>& word, std::uint32_t value) {
  const ErrnoKept kept;
  ::syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}

inline void wake_all(std::atomic<std::uint32_t>& word) {
  const ErrnoKept kept;
  ::syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr, nullptr, 0);
}

inline void sleep_microseconds(long microseconds) {
  const ErrnoKept kept;
  const timespec pause{microseconds / 1000000, (microseconds % 1000000) * 1000};
  ::nanosleep(&pause, nullptr);
}

inline std::uint64_t monotonic_nanoseconds() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(now.tv_nsec);
}

inline std::uint64_t monotonic_microseconds() { return monotonic_nanoseconds() / 1000U; }

}  // namespace torpor::thread
