#include "forks.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <optional>
#include <utility>

#include "../prim/errno_kept.h"
#include "../prim/log.h"
#include "../prim/thread.h"
#include "../prim/undisturbed.h"
#include "registered.h"
#include "span.h"

namespace torpor::pinned::forks {
namespace {

// What the parent waits for a child that copies. It copies ten times as fast, unless a debugger holds it.
constexpr std::uint64_t kPatienceUs = 60'000'000;
constexpr std::uint64_t kBytesPerUs = 100;

constinit std::atomic<bool> apart{true};
// A handler of the thread that forks might fork, too, and would wait for the lock that its own thread has. Never destroyed:
// the process may exit meanwhile.
std::optional<Undisturbed>& undisturbed() {
  static auto* const instance = new std::optional<Undisturbed>;
  return *instance;
}

// Of the fork that is under way; no other is meanwhile. Where no pipe can be made there is memory that both have, which tells
// nothing of a child that was killed.
constinit int ends[2] = {-1, -1};
constinit std::atomic<bool>* copied = nullptr;
constinit std::uint64_t patience_us = 0;
constinit thread_local bool forking __attribute__((tls_model("initial-exec"))) = false;

void let_go_of(int& end) {
  if (end >= 0) ::close(end);
  end = -1;
}

// Until the last holder of the other end has closed it, or is no more.
bool ended(int end, std::uint64_t deadline) {
  for (;;) {
    const std::uint64_t now = thread::monotonic_microseconds();
    if (now >= deadline) return false;
    pollfd one{end, POLLIN, 0};
    if (::poll(&one, 1, static_cast<int>((deadline - now) / 1000 + 1)) > 0) return true;
  }
}

bool has_copied(std::uint64_t deadline) {
  constexpr long kPauseUs = 200;
  while (!*copied) {
    if (thread::monotonic_microseconds() >= deadline) return false;
    thread::sleep_microseconds(kPauseUs);
  }
  return true;
}

void share_word() {
  void* const page = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page != MAP_FAILED) copied = new (page) std::atomic<bool>(false);
}

void let_go_of_word() {
  if (copied != nullptr) ::munmap(copied, kPage);
  copied = nullptr;
}

// False when the child may still copy.
bool waited_for_child() {
  if (patience_us == 0) return true;
  const std::uint64_t deadline = thread::monotonic_microseconds() + patience_us;
  if (ends[0] >= 0) return ended(ends[0], deadline);
  return copied != nullptr && has_copied(deadline);
}

void before() {
  const ErrnoKept kept;
  Undisturbed mine;
  registered::hold_for_fork();
  undisturbed().emplace(std::move(mine));
  forking = true;
  const std::uint64_t bytes = registered::bytes_held();
  patience_us = bytes > 0 ? kPatienceUs + bytes / kBytesPerUs : 0;
  if (bytes == 0 || ::pipe2(ends, O_CLOEXEC) == 0) return;
  ends[0] = ends[1] = -1;
  share_word();
}

void go_on() {
  const Undisturbed mine = std::move(*undisturbed());  // until the lock is another's
  undisturbed().reset();
  forking = false;
  registered::release_after_fork();
}

// What the parent writes once fork() has returned is not for the child to see.
void in_parent() {
  const ErrnoKept kept;
  let_go_of(ends[1]);
  if (!waited_for_child()) apart = false;
  let_go_of(ends[0]);
  let_go_of_word();
  go_on();
}

// Where every descriptor is in use maps cannot be read. So a process with the same memory, and descriptors of its own, gives
// one of those up and does what is left.
bool leave_files_for_a_descriptor() {
  alignas(16) static char stack[64 << 10];
  bool left = false;
  const auto leave = [](void* told) {
    ::close(STDIN_FILENO);
    *static_cast<bool*>(told) = registered::leave_files();
    return 0;
  };
  // This one sleeps until then, and hears no signal of the other's end.
  const int other = ::clone(leave, stack + sizeof stack, CLONE_VM | CLONE_VFORK, &left);
  return other > 0 && ::waitpid(other, nullptr, __WCLONE) == other && left;
}

void in_child() {
  const ErrnoKept kept;
  if (!registered::leave_files() && !leave_files_for_a_descriptor()) {
    log::error("a forked child cannot have copies of the parent's registered memory: no memory");
    std::abort();  // it would write into its parent's
  }
  let_go_of(ends[0]);
  let_go_of(ends[1]);
  if (copied != nullptr) *copied = true;
  let_go_of_word();
  go_on();
}

}  // namespace

bool watched() {
  undisturbed();  // made now: nothing is allocated in a fork
  static const bool done = ::pthread_atfork(before, in_parent, in_child) == 0;
  return done;
}

bool under_way() { return forking; }

bool children_are_apart() { return apart; }

}  // namespace torpor::pinned::forks
