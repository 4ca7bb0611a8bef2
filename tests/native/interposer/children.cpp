// Children of a program that uses the driver: the parent must work on after each, and a child may use the driver anew.
#include <sched.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "fake_driver.h"

extern char** environ;

namespace {

void launch() { CHECK(cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr) == CUDA_SUCCESS); }

void reap(pid_t child) {
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

void work_in_child() {
  launch();
  CHECK(cuInit(0) == CUDA_SUCCESS);
  launch();
}

void make_children(char* self) {
  char quiet[] = "nothing";
  char* words[] = {self, quiet, nullptr};

  pid_t child = fork();
  if (child == 0) {
    work_in_child();
    _exit(0);
  }
  reap(child);
  launch();

  child = fork();
  if (child == 0) exit(0);  // runs the C library's exit handlers
  reap(child);
  launch();

  child = fork();
  if (child == 0) {
    execve("/proc/self/exe", words, environ);
    _exit(9);
  }
  reap(child);
  launch();

  child = vfork();
  if (child == 0) {
    execve("/proc/self/exe", words, environ);
    _exit(9);
  }
  reap(child);
  launch();

  child = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));
  if (child == 0) {
    if (cuInit(0) != CUDA_SUCCESS) _exit(8);
    launch();
    _exit(0);
  }
  reap(child);
  launch();

  CHECK(posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, words, environ) == 0);
  reap(child);
  launch();

  CHECK(std::system("true") == 0);
  launch();
}

}  // namespace

int main(int count, char** words) {
  if (count > 1 && std::string(words[1]) == "nothing") return 0;
  CHECK(cuInit(0) == CUDA_SUCCESS);
  launch();
  make_children(words[0]);

  // Again while other threads are inside the driver all the time.
  std::atomic<bool> stop{false};
  std::vector<std::thread> busy;
  for (int i = 0; i < 2; ++i) {
    busy.emplace_back([&stop] {
      while (!stop.load()) launch();
    });
  }
  for (int i = 0; i < 5; ++i) make_children(words[0]);
  stop.store(true);
  for (std::thread& thread : busy) thread.join();
  return 0;
}
