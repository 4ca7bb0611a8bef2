#include "thread.h"

#include <pthread.h>
#include <signal.h>

#include <cstddef>

namespace torpor::control {
namespace {

// The driver's own calls need some; our frames need little.
constexpr std::size_t kStack = 512 * 1024;

void* enter(void* body) {
  reinterpret_cast<void (*)()>(body)();
  return nullptr;
}

}  // namespace

bool start_thread(const char* name, void (*body)()) {
  pthread_attr_t attributes;
  if (::pthread_attr_init(&attributes) != 0) return false;
  ::pthread_attr_setstacksize(&attributes, kStack);
  ::pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  // A new thread inherits the mask of the one that makes it.
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const bool started = ::pthread_create(&thread, &attributes, enter, reinterpret_cast<void*>(body)) == 0;
  if (started) ::pthread_setname_np(thread, name);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::pthread_attr_destroy(&attributes);
  return started;
}

}  // namespace torpor::control
