// Keeps SIGXFSZ from the program while we write to a file: it may be limited in the files that it writes (RLIMIT_FSIZE), and
// would be killed for one of ours. The call fails with EFBIG, and no more.
#pragma once

#include <csignal>
#include <ctime>

#include "errno_kept.h"

namespace torpor {

class NoSizeSignal {
 public:
  NoSizeSignal() {
    const ErrnoKept kept;
    sigset_t waiting;
    ::sigemptyset(&only_);
    ::sigaddset(&only_, SIGXFSZ);
    // The kernel sends it to the thread that writes. One that waited before is the program's.
    usable_ = ::sigpending(&waiting) == 0 && ::sigismember(&waiting, SIGXFSZ) == 0 &&
              ::pthread_sigmask(SIG_BLOCK, &only_, &before_) == 0;
  }
  ~NoSizeSignal() {
    if (!usable_) return;
    const ErrnoKept kept;
    const timespec at_once{};
    while (::sigtimedwait(&only_, nullptr, &at_once) < 0 && errno == EINTR) {
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoSizeSignal(const NoSizeSignal&) = delete;
  NoSizeSignal& operator=(const NoSizeSignal&) = delete;

 private:
  sigset_t only_{}, before_{};
  bool usable_ = false;  // where one waits already, the program has blocked it, and another makes no difference
};

}  // namespace torpor
