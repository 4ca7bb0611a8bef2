// A library loaded with the program, for threads in which time passes faster: each look at the monotonic clock after
// hurry(ns) takes so long.
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <ctime>

namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
thread_local std::int64_t step = 0, ahead = 0;

}  // namespace

extern "C" void hurry(std::int64_t nanoseconds) { step = nanoseconds; }

extern "C" int clock_gettime(clockid_t clock, timespec* now) {
  const long failed = ::syscall(SYS_clock_gettime, clock, now);
  if (failed != 0 || clock != CLOCK_MONOTONIC) return static_cast<int>(failed);
  ahead += step;
  const std::int64_t nanoseconds = now->tv_nsec + ahead;
  now->tv_sec += nanoseconds / kSecond;
  now->tv_nsec = nanoseconds % kSecond;
  return 0;
}
