// The gate by itself, compiled into the test. `gate_test CASE`.
#include "../../../native/interposer/gate/gate.h"

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "check.h"

using torpor::gate::Report;
using torpor::gate::Scope;
using torpor::gate::Waiting;
namespace gate = torpor::gate;

namespace {

constexpr std::uint32_t kLong = 20000;

void until(const std::atomic<std::uint64_t>& value, std::uint64_t at_least) {
  while (value.load() < at_least) std::this_thread::yield();
}

// Whether a thread of this process sleeps in the kernel.
bool sleeps(std::int32_t tid) {
  std::ifstream file("/proc/self/task/" + std::to_string(tid) + "/stat");
  std::string line;
  std::getline(file, line);
  return line.substr(line.rfind(')') + 2, 1) == "S";
}

// While the gate is closed nothing changes; what was counted inside equals what was counted outside.
void hammer() {
  constexpr int kThreads = 8;
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> inside{0};
  std::uint64_t outside[kThreads] = {};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      while (!stop.load(std::memory_order_relaxed)) {
        {
          const Scope scope("cuLaunchKernel");
          const Scope nested("cuMemcpyAsync");
          inside.fetch_add(1, std::memory_order_relaxed);
        }
        ++outside[i];
      }
    });
  }
  for (int round = 0; round < 200; ++round) {
    until(inside, inside.load() + 50);
    const Report report = gate::close(kLong);
    CHECK(report.drained && report.count == 0 && gate::is_closed());
    const std::uint64_t before = inside.load();
    for (int i = 0; i < 20; ++i) std::this_thread::yield();
    CHECK(inside.load() == before);
    gate::open();
    CHECK(!gate::is_closed());
  }
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  std::uint64_t sum = 0;
  for (const std::uint64_t each : outside) sum += each;
  CHECK(sum == inside.load());
}

void deadline() {
  std::atomic<std::uint64_t> entered{0};
  std::atomic<bool> leave{false};
  std::atomic<std::int32_t> tid{0};
  std::thread stuck([&] {
    tid.store(static_cast<std::int32_t>(::syscall(SYS_gettid)));
    const Scope scope("cuModuleLoadData");
    entered.store(1);
    while (!leave.load()) std::this_thread::yield();
  });
  until(entered, 1);
  const Report report = gate::close(50);
  CHECK(!report.drained && report.count == 1);
  CHECK(std::string(report.inside[0].call) == "cuModuleLoadData" && report.inside[0].tid == tid.load());
  CHECK(!gate::is_closed());
  { const Scope free_to_go("cuLaunchKernel"); }
  leave.store(true);
  CHECK(gate::close(kLong).drained);  // succeeds as soon as the thread has left
  gate::open();
  stuck.join();
}

// Ten thousand threads, one after another and a few at a time, need no more slots than live at once; a closed gate then
// still drains.
void slots_return() {
  std::atomic<std::uint64_t> passed{0};
  for (int i = 0; i < 2500; ++i) {
    std::vector<std::thread> few;
    for (int j = 0; j < 4; ++j) {
      few.emplace_back([&] {
        const Scope scope("cuLaunchKernel");
        passed.fetch_add(1);
      });
    }
    for (std::thread& each : few) each.join();
  }
  CHECK(passed.load() == 10000);
  CHECK(gate::detail::slots_ever_used() <= 5);
  CHECK(gate::close(kLong).drained);
  gate::open();
}

// A thread that waits for the GPU holds up nobody who closes the gate, and is seen by await_waiting(); with and without a
// slot of its own.
void waiting() {
  for (const std::uint32_t slots : {16384U, 0U}) {
    gate::detail::limit_slots(slots);
    std::atomic<std::uint64_t> entered{0};
    std::atomic<bool> leave{false};
    std::thread waits([&] {
      const Waiting scope("cuStreamSynchronize");
      const Scope nested("cuMemAlloc_v2");
      entered.store(1);
      while (!leave.load()) std::this_thread::yield();
    });
    until(entered, 1);
    CHECK(gate::close(kLong).drained);
    const Report late = gate::await_waiting(20);
    CHECK(!late.drained && late.count == 1 && !gate::is_closed());
    CHECK(slots == 0 || std::string(late.inside[0].call) == "cuStreamSynchronize");
    CHECK(gate::close(kLong).drained);
    std::atomic<std::uint64_t> passed{0};
    std::thread newcomer([&] {
      const Waiting scope("cuEventSynchronize");
      passed.store(1);
    });
    leave.store(true);
    CHECK(gate::await_waiting(kLong).drained && gate::is_closed());
    CHECK(passed.load() == 0);  // a wait that begins at a closed gate stays outside
    gate::open();
    waits.join();
    newcomer.join();
    { const Scope inside("cuLaunchKernel"); }  // a thread that once waited is inside as any other
  }
  std::atomic<std::uint64_t> turn{0};
  std::thread both([&] {
    { const Waiting scope("cuStreamSynchronize"); }
    const Scope scope("cuLaunchKernel");
    turn.store(1);
    while (turn.load() == 1) std::this_thread::yield();
  });
  until(turn, 1);
  CHECK(!gate::close(20).drained);
  turn.store(2);
  both.join();
}

// More threads at once than there are slots would be slow to make; the limit is lowered for this case.
void overflow() {
  gate::detail::limit_slots(2);
  std::atomic<std::uint64_t> entered{0};
  std::atomic<bool> leave{false};
  std::vector<std::thread> many;
  for (int i = 0; i < 6; ++i) {
    many.emplace_back([&] {
      const Scope scope("cuLaunchKernel");
      entered.fetch_add(1);
      while (!leave.load()) std::this_thread::yield();
    });
  }
  until(entered, 6);
  const Report report = gate::close(20);
  CHECK(!report.drained && report.count == 6);
  leave.store(true);
  for (std::thread& each : many) each.join();
  CHECK(gate::close(kLong).drained);
  gate::open();
}

// A child forked while the gate is closed and other threads are inside starts with an open, empty gate.
void forked() {
  std::atomic<std::uint64_t> entered{0};
  std::atomic<bool> leave{false};
  std::thread inside([&] {
    const Scope scope("cuLaunchKernel");
    entered.store(1);
    while (!leave.load()) std::this_thread::yield();
  });
  until(entered, 1);
  { const Scope own_slot("cuMemAlloc_v2"); }
  std::thread closer([] { CHECK(!gate::close(300).drained); });
  while (!gate::is_closed()) std::this_thread::yield();
  for (const bool raw : {false, true}) {
    const long made = raw ? ::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr) : ::fork();
    const auto child = static_cast<pid_t>(made);
    if (child == 0) {
      if (raw) gate::after_fork();
      { const Scope scope("cuLaunchKernel"); }
      const Report report = gate::close(1000);
      ::_exit(report.drained ? 0 : 7);
    }
    int status = 0;
    CHECK(::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  closer.join();
  leave.store(true);
  inside.join();
}

std::atomic<std::uint64_t> interrupted{0}, slipped_in{0};

void call_in_handler(int) {
  interrupted.store(1);
  const Scope scope("cuCtxGetDevice");
  slipped_in.fetch_add(1);
}

// A signal handler that makes a call while its thread waits at the closed gate waits, too; one that interrupts a call is
// inside, as is any nested call.
void handler() {
  std::signal(SIGUSR1, call_in_handler);
  CHECK(gate::close(kLong).drained);
  std::atomic<std::uint64_t> passed{0};
  std::atomic<std::int32_t> tid{0};
  std::atomic<bool> leave{false};
  std::thread other([&] {
    tid.store(static_cast<std::int32_t>(::syscall(SYS_gettid)));
    const Scope scope("cuLaunchKernel");
    passed.store(1);
    while (!leave.load()) std::this_thread::yield();
  });
  while (tid.load() == 0) std::this_thread::yield();
  while (!sleeps(tid.load())) std::this_thread::yield();
  ::syscall(SYS_tgkill, ::getpid(), tid.load(), SIGUSR1);
  until(interrupted, 1);
  while (slipped_in.load() == 0 && !sleeps(tid.load())) std::this_thread::yield();
  CHECK(slipped_in.load() == 0 && passed.load() == 0);
  gate::open();
  until(passed, 1);
  CHECK(slipped_in.load() == 1);
  CHECK(!gate::close(20).drained);
  ::syscall(SYS_tgkill, ::getpid(), tid.load(), SIGUSR1);
  until(slipped_in, 2);
  CHECK(!gate::close(20).drained);  // the nested call's end is not the outer one's
  leave.store(true);
  other.join();
  CHECK(gate::close(kLong).drained);
  gate::open();
}

}  // namespace

int main(int, char** words) {
  const std::string name = words[1];
  if (name == "hammer") hammer();
  else if (name == "deadline") deadline();
  else if (name == "slots") slots_return();
  else if (name == "waiting") waiting();
  else if (name == "overflow") overflow();
  else if (name == "forked") forked();
  else if (name == "handler") handler();
  else CHECK(!"known case");
  return 0;
}
