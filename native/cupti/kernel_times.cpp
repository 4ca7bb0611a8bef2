// Times a process's kernels, copies and fills with CUPTI, for `torpor profile --kernels` (docs/design/profile.md).
//
// The driver loads this library in cuInit, since CUDA_INJECTION64_PATH names it. Nothing here may disturb the program:
// no exception leaves, nothing is printed, and what does not work is told in the file of figures.
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <new>
#include <string>

#include "figures.h"
#include "library.h"
#include "written.h"

namespace torpor::cupti {
namespace {

constexpr std::size_t kBuffer = std::size_t{4} << 20, kMostBuffers = 64;
constexpr long kPeriodSeconds = 1;
constexpr long kPatienceSeconds = 10, kMorePatience = 1;  // the process's end waits for the last figures, then for a word

// Everything that there is in a process; made once and never destroyed, since threads outlive static destruction.
struct Session {
  const pid_t owner = ::getpid();  // a forked child has nothing of it
  std::string path = place_for_figures();
  Library library;

  std::atomic<std::size_t> buffers{0};  // with CUPTI

  // Held while the file is written, and taken before the next. A disk that hangs stops nobody who tells of records.
  std::mutex writing;

  // Guards what follows. CUPTI has locks of its own and calls us under them: none of its functions is called under ours,
  // and `requested`, which may come from inside any of them, does not take it.
  std::mutex mutex;
  Figures figures;
  Circumstances circumstances;
  bool changed = true;

  pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;  // guards what follows
  pthread_cond_t turned;
  bool ending = false, ended = false;

  bool ours() const { return ::getpid() == owner; }
};

Session* session = nullptr;

void fail(const std::string& what) {
  std::lock_guard lock(session->mutex);
  auto& failures = session->circumstances.failures;
  if (failures.size() < 16 && std::find(failures.begin(), failures.end(), what) == failures.end()) failures.push_back(what);
  session->changed = true;
}

bool worked(const char* call, Status status) {
  if (status != kDone) fail(session->library.failure(call, status));
  return status == kDone;
}

// Called by CUPTI in the program's threads.
void requested(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records) {
  *buffer = nullptr;  // for none, CUPTI drops records, and counts them
  *size = *most_records = 0;
  if (!session->ours() || session->buffers >= kMostBuffers) return;
  *buffer = static_cast<std::uint8_t*>(std::malloc(kBuffer));
  if (*buffer == nullptr) return;
  *size = kBuffer;
  ++session->buffers;
}

void read(std::uint8_t* buffer, std::size_t valid) {
  Record* record = nullptr;
  Status status;
  while ((status = session->library.next_record(buffer, valid, &record)) == kDone && record != nullptr) {
    std::lock_guard lock(session->mutex);
    session->figures.add(*record);
    session->changed = true;
  }
  if (status != kNoMoreRecords) worked("cuptiActivityGetNextRecord", status);
}

void completed(void* context, std::uint32_t stream, std::uint8_t* buffer, std::size_t, std::size_t valid) {
  if (session->ours()) {
    --session->buffers;
    std::size_t lost = 0;
    if (session->library.dropped(context, stream, &lost) != kDone) lost = 0;
    try {
      if (valid > 0) read(buffer, valid);
    } catch (const std::exception&) {
      ++lost;  // no memory for it
    }
    std::lock_guard lock(session->mutex);
    session->circumstances.dropped += lost;
  }
  std::free(buffer);
}

void write_once() {
  if (session->path.empty()) return;
  std::lock_guard file(session->writing);
  std::string text;
  {
    std::lock_guard lock(session->mutex);
    if (!session->changed) return;
    text = json(session->figures, session->circumstances);
    session->changed = false;
  }
  if (write_figures(session->path, text)) return;
  std::lock_guard lock(session->mutex);
  session->changed = true;
}

// Waits for the next turn; false for the last one.
bool wait() {
  timespec until{};
  ::clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec += kPeriodSeconds;
  ::pthread_mutex_lock(&session->turn);
  while (!session->ending && ::pthread_cond_timedwait(&session->turned, &session->turn, &until) != ETIMEDOUT) {
  }
  const bool last = session->ending;
  ::pthread_mutex_unlock(&session->turn);
  return !last;
}

void tell_again_and_again() {
  bool more = true;
  while (more) {
    try {
      write_once();
      more = wait();
      // Of its own accord CUPTI hands out full buffers only.
      const std::uint64_t asked = monotonic_nanoseconds();
      worked("cuptiActivityFlushAll", session->library.flush_all(more ? kFinished : kAll));
      std::lock_guard lock(session->mutex);
      session->circumstances.asked = asked;
    } catch (const std::exception&) {
      // No memory: the next turn may have some.
    }
  }
}

void tell_last() {
  try {
    {
      std::lock_guard lock(session->mutex);
      session->circumstances.ended = session->changed = true;
    }
    write_once();
  } catch (const std::exception&) {
    // The last file but one stays.
  }
}

void say_ended() {
  ::pthread_mutex_lock(&session->turn);
  session->ended = true;
  ::pthread_cond_broadcast(&session->turned);
  ::pthread_mutex_unlock(&session->turn);
}

void* work(void* usable) {
  if (usable != nullptr) tell_again_and_again();
  tell_last();
  say_ended();
  return nullptr;
}

// The thread of `work` is held up. What it has counted so far counts, but is not all.
void* tell_why(void*) {
  try {
    fail("CUPTI did not hand out its last records, for which the process's end waited " +
         std::to_string(kPatienceSeconds) + " s");
    write_once();
  } catch (const std::exception&) {
    // The last file stays.
  }
  say_ended();
  return nullptr;
}

// All files are written in threads that have all signals blocked: the program's handlers do not run in them, nor does a
// limit on the size of files kill the program for ours.
bool in_thread(void* (*function)(void*), void* argument) {
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const int error = ::pthread_create(&thread, nullptr, function, argument);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) return false;
  ::pthread_setname_np(thread, "torpor-kernels");
  ::pthread_detach(thread);
  return true;
}

bool ends_within(long seconds) {
  timespec until{};
  ::clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec += seconds;
  ::pthread_mutex_lock(&session->turn);
  session->ending = true;
  ::pthread_cond_broadcast(&session->turned);
  while (!session->ended && ::pthread_cond_timedwait(&session->turned, &session->turn, &until) != ETIMEDOUT) {
  }
  const bool ended = session->ended;
  ::pthread_mutex_unlock(&session->turn);
  return ended;
}

// Returns when the last figures are written, or after a time.
void finish() {
  if (session->ours() && !ends_within(kPatienceSeconds) && in_thread(tell_why, nullptr)) ends_within(kMorePatience);
}

void start(bool usable) {
  pthread_condattr_t monotonic;
  ::pthread_condattr_init(&monotonic);
  ::pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  ::pthread_cond_init(&session->turned, &monotonic);
  if (!in_thread(work, usable ? session : nullptr)) return;  // then there is no file, which is told, too
  if (usable) std::atexit(finish);
  else finish();
}

bool enabled() {
  const Library& library = session->library;
  if (!worked("cuptiActivityRegisterCallbacks", library.register_callbacks(requested, completed))) return false;
  bool any = false;
  for (const std::uint32_t kind : {kConcurrentKernel, kCopy, kFill, kPeerCopy}) {
    any = worked("cuptiActivityEnable", library.enable(kind)) || any;
  }
  return any;
}

void begin() {
  if (session != nullptr) return;
  session = new Session;
  std::string why;
  session->library = find(why);
  session->circumstances.library = session->library.path;
  session->circumstances.asked = monotonic_nanoseconds();
  const bool found = !session->library.path.empty();
  if (!found) fail(why);
  start(found && enabled());
}

}  // namespace
}  // namespace torpor::cupti

// Called by the driver, once. What it makes of the answer is not documented; 1 is what the vendor's own examples return.
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  const int error = errno;
  try {
    torpor::cupti::begin();
  } catch (const std::exception&) {
    // No memory, then, and no figures.
  }
  errno = error;
  return 1;
}
