// Keeps the program's signal handlers and cancellation from the calling thread: a handler that runs while the thread has a
// lock of ours, or while others wait for what it does, might come to wait for the same.
#pragma once

#include <pthread.h>

#include <csignal>
#include <utility>

namespace torpor {

class Undisturbed {
 public:
  Undisturbed() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
    ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellable_);
  }
  // For a thread that takes longer than one call of ours, as across a fork.
  Undisturbed(Undisturbed&& other) noexcept
      : before_(other.before_), cancellable_(other.cancellable_), mine_(std::exchange(other.mine_, false)) {}
  ~Undisturbed() {
    if (!mine_) return;
    ::pthread_setcancelstate(cancellable_, nullptr);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  Undisturbed(const Undisturbed&) = delete;
  Undisturbed& operator=(const Undisturbed&) = delete;

 private:
  sigset_t before_;
  int cancellable_ = 0;
  bool mine_ = true;
};

}  // namespace torpor
