#include "drain.h"

#include <condition_variable>
#include <mutex>

#include "../arena/contexts.h"
#include "thread.h"

namespace torpor::control {
namespace {

struct Work {
  std::mutex lock;
  std::condition_variable changed;
  bool thread = false;     // the thread exists
  bool wanted = false;     // a run was asked for and has not begun
  bool running = false;
  bool abandoned = false;  // the deadline passed: no further context may be waited for
  int device = -1;         // being waited for
  CUresult error = CUDA_SUCCESS;
  int failed_device = -1;
};

Work& work() {
  static auto* const instance = new Work;
  return *instance;
}

// After an abandoned run the gate is open again: a wait begun then could break a capture of the program's.
bool may_go_on(Work& w, int device) {
  const std::lock_guard guard(w.lock);
  w.device = device;
  return !w.abandoned;
}

void wait_for_contexts(Work& w) {
  for (const contexts::Held& context : contexts::all()) {
    if (!may_go_on(w, context.device())) return;
    const CUresult result = contexts::synchronize(context.handle());
    if (contexts::is_gone(result)) {
      contexts::forget(context.handle());
    } else if (result != CUDA_SUCCESS) {
      const std::lock_guard guard(w.lock);
      w.error = result;
      w.failed_device = context.device();
      return;
    }
  }
}

void body() {
  Work& w = work();
  std::unique_lock guard(w.lock);
  for (;;) {
    w.changed.wait(guard, [&w] { return w.wanted; });
    w.wanted = false;
    w.running = true;
    w.abandoned = false;
    w.error = CUDA_SUCCESS;
    guard.unlock();
    wait_for_contexts(w);
    guard.lock();
    w.running = false;
    w.device = -1;
    w.changed.notify_all();
  }
}

}  // namespace

Drained drain(Clock::time_point deadline) {
  Work& w = work();
  std::unique_lock guard(w.lock);
  const auto idle = [&w] { return !w.running && !w.wanted; };
  const auto late = [&w] {
    w.abandoned = true;
    w.wanted = false;
    Drained out{Drained::End::deadline, CUDA_SUCCESS, 0, {}};
    if (w.device >= 0) out.busy.push_back(w.device);
    return out;
  };
  if (!w.thread) w.thread = start_thread("torpor-drain", body);
  if (!w.thread) return {Drained::End::failed, CUDA_ERROR_OPERATING_SYSTEM, 0, {}};
  if (!w.changed.wait_until(guard, deadline, idle)) return late();
  w.wanted = true;
  w.changed.notify_all();
  if (!w.changed.wait_until(guard, deadline, idle)) return late();
  if (w.error != CUDA_SUCCESS) return {Drained::End::failed, w.error, w.failed_device, {}};
  return {};
}

}  // namespace torpor::control
