#include "fork_hold.h"

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "thread.h"

namespace torpor {
namespace {

constexpr std::uint32_t kForking = UINT32_MAX;
constinit std::atomic<std::uint32_t> holders{0};
constinit thread_local bool forking __attribute__((tls_model("initial-exec"))) = false;

void wait_for_holders() {
  for (;;) {
    std::uint32_t found = 0;
    if (holders.compare_exchange_weak(found, kForking)) break;
    if (found != 0) thread::wait_while(holders, found);
  }
  forking = true;
}

void forked() {
  forking = false;
  holders = 0;
  thread::wake_all(holders);
}

}  // namespace

ForkHold::ForkHold() {
  static const int registered = ::pthread_atfork(wait_for_holders, forked, forked);
  static_cast<void>(registered);
  if (forking) {  // in a handler of the program's, with nobody to hold off
    held_ = false;
    return;
  }
  for (std::uint32_t found = holders;;) {
    if (found == kForking) {
      thread::wait_while(holders, kForking);
      found = holders;
    } else if (holders.compare_exchange_weak(found, found + 1)) {
      return;
    }
  }
}

void ForkHold::end() {
  if (held_ && --holders == 0) thread::wake_all(holders);
  held_ = false;
}

}  // namespace torpor
