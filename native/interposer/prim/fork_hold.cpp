#include "fork_hold.h"

#include <pthread.h>

#include <mutex>

namespace torpor {
namespace {

// Never destroyed: threads of ours may hold it while the process exits.
std::mutex& gap() {
  static auto* const instance = new std::mutex;
  static const int registered =
      ::pthread_atfork([] { gap().lock(); }, [] { gap().unlock(); }, [] { gap().unlock(); });
  static_cast<void>(registered);
  return *instance;
}

}  // namespace

ForkHold::ForkHold() { gap().lock(); }

void ForkHold::end() {
  if (held_) gap().unlock();
  held_ = false;
}

}  // namespace torpor
