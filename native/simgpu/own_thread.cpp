#include "own_thread.h"

#include <memory>
#include <pthread.h>
#include <signal.h>

#include "failure.h"

namespace sim {

namespace {

constexpr size_t stack_size = size_t{512} << 10;

struct Start {
  const char* name;
  std::function<void()> body;
};

void* run(void* argument) {
  std::unique_ptr<Start> start(static_cast<Start*>(argument));
  pthread_setname_np(pthread_self(), start->name);
  start->body();
  return nullptr;
}

}  // namespace

void start_own_thread(const char* name, std::function<void()> body) {
  auto owned = std::make_unique<Start>(Start{name, std::move(body)});
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, stack_size);
  pthread_t thread;
  int error = pthread_create(&thread, &attributes, run, owned.get());
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  require(error == 0, CUDA_ERROR_OPERATING_SYSTEM);
  owned.release();  // the thread's now
}

}  // namespace sim
