// What a program may do that is seldom done, for the tests of registered memory. A library that the program loads.
#include <pthread.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstddef>

namespace {

using Call = int(void*);

struct Step {
  Call* call;
  void* argument;
};

struct Work {
  Step first, second;
  int result;
};

void* work(void* told) {
  auto* const mine = static_cast<Work*>(told);
  mine->result = mine->first.call(mine->first.argument);
  if (mine->result == 0) mine->result = mine->second.call(mine->second.argument);
  return nullptr;
}

std::atomic<int> nested{0};

void fork_again(int) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  if (child > 0 && ::waitpid(child, nullptr, 0) == child) ++nested;
}

struct {
  int (*enrol)(void*, std::size_t, unsigned);
  int (*withdraw)(void*);
  void* memory;
  std::size_t size;
  int results[2];
} at_forks;

void before_fork() { at_forks.results[0] = at_forks.enrol(at_forks.memory, at_forks.size, 0); }
void after_fork() { at_forks.results[1] = at_forks.withdraw(at_forks.memory); }

}  // namespace

// Makes the calls in a thread whose stack is this memory, until one gives something else than 0.
extern "C" int on_stack(void* memory, std::size_t size, Call* first, void* one, Call* second, void* other) {
  Work mine{{first, one}, {second, other}, -1};
  pthread_attr_t attributes;
  pthread_t thread;
  ::pthread_attr_init(&attributes);
  if (::pthread_attr_setstack(&attributes, memory, size) != 0) return -2;
  if (::pthread_create(&thread, &attributes, work, &mine) != 0) return -3;
  ::pthread_join(thread, nullptr);
  return mine.result;
}

// Forks while a timer runs out whose handler forks, too; how many times the handler did.
extern "C" int forks_in_handlers(int times) {
  struct sigaction action {};
  action.sa_handler = fork_again;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGALRM, &action, nullptr);
  for (int i = 0; i < times; ++i) {
    const itimerval soon{{0, 0}, {0, 5000}};
    ::setitimer(ITIMER_REAL, &soon, nullptr);
    const pid_t child = ::fork();
    if (child == 0) ::_exit(0);
    ::waitpid(child, nullptr, 0);
    while (nested <= i) ::usleep(100);
  }
  return nested;
}

// From now on this memory is registered while the process forks. Gives where the last two results are.
extern "C" const int* enrol_at_forks(int (*enrol)(void*, std::size_t, unsigned), int (*withdraw)(void*), void* memory,
                                     std::size_t size) {
  at_forks = {enrol, withdraw, memory, size, {-1, -1}};
  ::pthread_atfork(before_fork, after_fork, nullptr);
  return at_forks.results;
}
