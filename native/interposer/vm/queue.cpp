#include "queue.h"

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "../control/thread.h"
#include "../generated/real.h"
#include "../prim/barrier.h"
#include "../prim/thread.h"
#include "adding.h"
#include "loss.h"
#include "merging.h"
#include "policy.h"
#include "proofs.h"
#include "sleepers.h"

namespace torpor::vm {
namespace detail {

constinit std::atomic<bool> unsettled{false};

}  // namespace detail

namespace {

using Word = std::atomic<std::uint32_t>;

constexpr std::uint32_t kItems = 256;
constexpr std::uint32_t kRoom = kItems / 4;   // slots that a thread waits for which finds none: at every one it would be in the way
constexpr std::uint64_t kSpinNs = 20'000;     // before a thread sleeps: about what sleeping and waking cost
constexpr std::uint64_t kPatienceUs = 1'000'000;  // what a fork, and an exit, wait for a driver that takes no more
constexpr std::uint32_t kWindow = 512;        // items between two judgements

constexpr std::uint32_t kLook = 16;  // items between two looks of the submitter that need not be

// Who writes a line of the cache at every call has it; a look of the other side takes it away. So each side has lines of its
// own, in structures, since a compiler orders variables as it likes. The difference of `added` and `taken` is the queue's length.
struct alignas(64) {
  Word added{0};
} shared;

struct alignas(64) {  // under `adding`, but for what is only counted
  Adding adding;                 // Turn; taken across a fork
  std::uint32_t seen_taken = 0;  // what was seen of the submitter's `taken`
  std::uint64_t published = 0;   // `added` without its wrapping around
  std::atomic<std::uint64_t> deferred{0}, waits{0}, waiting_ns{0}, straight{0}, dropped[kDrops]{};
  std::uint64_t judged_submitting = 0, judged_waiting = 0, judged_waits = 0;
} constinit program;

struct alignas(64) {
  Word taken{0};
  std::atomic<std::uint64_t> submitting_ns{0}, deepest{0};
} constinit submitters;

struct alignas(64) {  // what seldom changes
  Item* ring = nullptr;  // written once, under `adding`
  Word asleep{0};        // 1 while the submitter sleeps, or is about to
  Sleepers sleepers;     // until `taken` gets somewhere
  Word settling{0};      // threads whose next call may look at what the queue did
  // An error that no call has returned yet, and the context that it is about: a call in another one must not return it.
  std::atomic<CUresult> late{CUDA_SUCCESS};
  std::atomic<CUcontext> late_context{nullptr};  // written before `late`, by the submitter
} constinit rare;

constinit thread_local bool submitter __attribute__((tls_model("initial-exec"))) = false;
// While this thread holds `adding` for a fork, and other handlers of that fork may call the driver.
constinit thread_local bool forking __attribute__((tls_model("initial-exec"))) = false;

void add(std::atomic<std::uint64_t>& counter, std::uint64_t value) {
  counter.fetch_add(value, std::memory_order_relaxed);
}

// Of a counter that has one writer at a time.
void add_alone(std::atomic<std::uint64_t>& counter, std::uint64_t value) {
  counter.store(counter.load(std::memory_order_relaxed) + value, std::memory_order_relaxed);
}

// True once `done()`; spins for kSpinNs at most.
template <typename Done>
bool spun(Done done) {
  const std::uint64_t end = thread::monotonic_nanoseconds() + kSpinNs;
  do {
    for (int i = 0; i < 64; ++i) {
      if (done()) return true;
      __builtin_ia32_pause();
    }
  } while (thread::monotonic_nanoseconds() < end);
  return done();
}

bool reached(std::uint32_t target) {
  return static_cast<std::int32_t>(submitters.taken.load(std::memory_order_acquire) - target) >= 0;
}

enum class Patience { little, much };

// Waits until the driver has taken everything before `target`; with much patience asleep from the start.
void wait_for(std::uint32_t target, Patience patience = Patience::little) {
  if (reached(target)) return;
  const std::uint64_t start = thread::monotonic_nanoseconds();
  if (patience == Patience::much || !spun([&] { return reached(target); })) rare.sleepers.sleep(submitters.taken, target);
  add(program.waits, 1);
  add(program.waiting_ns, thread::monotonic_nanoseconds() - start);
}

CUresult enter(const Item& item, CUcontext& current) {
  if (item.context == current) return CUDA_SUCCESS;
  const CUresult result = real::cuCtxSetCurrent(item.context);
  if (result == CUDA_SUCCESS) current = item.context;
  return result;
}

void run(Item& item, CUcontext& current) {
  if (item.state.exchange(Item::State::begun, std::memory_order_acq_rel) == Item::State::out) return;
  CUresult result = enter(item, current);
  if (result == CUDA_SUCCESS) result = item.run(item);
  if (result == CUDA_SUCCESS || rare.late.load(std::memory_order_acquire) != CUDA_SUCCESS) return;
  rare.late_context.store(item.context, std::memory_order_relaxed);
  rare.late.store(result, std::memory_order_release);
}

// The submitter's life. It never ends before the process does.
void submit() {
  submitter = true;
  for (;;) {
    const std::uint32_t next = submitters.taken.load(std::memory_order_relaxed);
    const auto more = [&] { return shared.added.load(std::memory_order_acquire) != next; };
    while (!more() && !(in_use() && spun(more))) {
      rare.asleep.store(1, std::memory_order_seq_cst);
      barrier_all_threads();  // Turn::publish() has none: what is not seen in `added` now will see `asleep`
      if (shared.added.load(std::memory_order_acquire) == next) thread::wait_while(rare.asleep, 1);
      rare.asleep.store(0, std::memory_order_relaxed);
    }
    // Between two items a context may be destroyed, which forgets what was proven, and its handle be another's.
    CUcontext current = nullptr;
    std::uint64_t generation = proofs::generation();
    std::uint64_t before = thread::monotonic_nanoseconds();
    for (std::uint32_t at = next, end = at;;) {
      if (at == end || at % kLook == 0) {
        end = shared.added.load(std::memory_order_acquire);
        if (at == end) break;
        if (end - at > submitters.deepest.load(std::memory_order_relaxed)) submitters.deepest.store(end - at, std::memory_order_relaxed);
      }
      if (const std::uint64_t now = proofs::generation(); now != generation) {
        generation = now;
        current = nullptr;
      }
      Item& item = rare.ring[at % kItems];
      std::uint32_t count = 0;
      if (merges() && enter(item, current) == CUDA_SUCCESS) {
        count = merging::submit([at](std::uint32_t i) -> Item& { return rare.ring[(at + i) % kItems]; }, end - at);
      }
      if (count == 0) run(item, current);
      const std::uint64_t after = thread::monotonic_nanoseconds();
      if (count == 0 && merges()) merging::submitted(item, after - before);
      add_alone(submitters.submitting_ns, after - before);
      before = after;
      at += std::max(count, std::uint32_t{1});
      submitters.taken.store(at, std::memory_order_seq_cst);
      rare.sleepers.wake(submitters.taken, at);
    }
  }
}

void after_fork() {
  forking = false;
  program.adding.unlock();
}

// No call of the child's can be deferred: the driver is not usable in it, or only from a fresh start.
void in_child() {
  give_up();
  detail::unsettled.store(false, std::memory_order_relaxed);
  shared.added.store(submitters.taken.load(std::memory_order_relaxed), std::memory_order_relaxed);
  rare.sleepers.forget();
  rare.late.store(CUDA_SUCCESS, std::memory_order_relaxed);
  after_fork();
}

// With nobody adding to the queue, and as a rule with nothing in it, at the fork. A driver that takes no more may do so only
// after the fork, so that is not waited for forever: the child makes none of these calls in any case.
void before_fork() {
  program.adding.lock();
  forking = true;
  const std::uint32_t target = shared.added.load(std::memory_order_relaxed);
  if (!spun([&] { return reached(target); })) drained_by(thread::monotonic_microseconds() + kPatienceUs);
}

void at_exit() {
  wind_up();
  drained_by(thread::monotonic_microseconds() + kPatienceUs);
}

// Under `adding`. Tried once: threads that asked before it failed must not find a queue that nobody empties.
bool ready() {
  if (rare.ring != nullptr) return true;
  static constinit bool tried = false;
  if (std::exchange(tried, true)) return false;
  void* const memory =
      ::mmap(nullptr, kItems * sizeof(Item), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory != MAP_FAILED && control::start_thread("torpor-submit", submit) &&
      ::pthread_atfork(before_fork, after_fork, in_child) == 0 && std::atexit(at_exit) == 0) {
    rare.ring = static_cast<Item*>(memory);
    return true;
  }
  give_up();  // the thread, if there is one, has nothing to do
  return false;
}

// Begins to bring the lines of the next item here from the submitter's processor, as a call much like the last one needs them.
void fetch(Item& item, std::size_t parameter_bytes) {
  constexpr std::size_t kLine = 64, kUsual = 2 * kLine, kMost = 16 * kLine;
  const auto bring = [](const std::byte* line) { asm volatile("prefetchw %0" : : "m"(*line)); };
  const auto* const begin = reinterpret_cast<const std::byte*>(&item);
  for (std::size_t at = 0; at < kUsual; at += kLine) bring(begin + at);
  for (std::size_t at = 0; at < std::min(parameter_bytes, kMost); at += kLine) bring(item.parameters + at);
}

void judge_window(std::uint64_t items) {
  // What merging saves the submitter, a program by itself would not have been spared.
  const std::uint64_t submitted = submitters.submitting_ns.load(std::memory_order_relaxed) + merging::counts().saved_ns;
  const std::uint64_t waited = program.waiting_ns.load(std::memory_order_relaxed);
  const std::uint64_t left_out = program.dropped[static_cast<std::uint32_t>(Drop::wait)].load(std::memory_order_relaxed);
  judge({.items = items,
         .calls = items + left_out - program.judged_waits,
         .submitting_ns = submitted - program.judged_submitting,
         .waiting_ns = waited - program.judged_waiting,
         .now_ns = thread::monotonic_nanoseconds()});
  program.judged_submitting = submitted;
  program.judged_waiting = waited;
  program.judged_waits = left_out;
}

}  // namespace

namespace detail {

void flush_slowly() {
  if (submitter) return;
  rare.settling.fetch_add(1, std::memory_order_seq_cst);  // before `added` is read: see Turn::publish
  if (forking) {  // perhaps in the child, where nobody empties what was left in the queue
    drained_by(thread::monotonic_microseconds() + kPatienceUs);
  } else {
    wait_for(shared.added.load(std::memory_order_seq_cst));
  }
  rare.settling.fetch_sub(1, std::memory_order_seq_cst);
}

CUresult settle_slowly() {
  if (submitter || forking) return CUDA_SUCCESS;  // with an error, if there is one, for the next call
  flush_slowly();
  CUresult result = CUDA_SUCCESS;
  {
    const std::lock_guard hold(program.adding);
    if (rare.late.load(std::memory_order_acquire) != CUDA_SUCCESS) {
      CUcontext here = nullptr;
      real::cuCtxGetCurrent(&here);
      if (here == rare.late_context.load(std::memory_order_relaxed)) {
        result = rare.late.exchange(CUDA_SUCCESS, std::memory_order_acq_rel);
      }
    }
    if (reached(shared.added.load(std::memory_order_relaxed)) && rare.late.load(std::memory_order_acquire) == CUDA_SUCCESS) {
      unsettled.store(false, std::memory_order_release);
    }
  }
  return noticed(result);
}

}  // namespace detail

Turn::Turn() {
  if (submitter || forking) return;
  for (;;) {
    program.adding.lock();
    locked_ = true;
    if (rare.late.load(std::memory_order_acquire) != CUDA_SUCCESS || !ready()) return;
    const std::uint32_t at = shared.added.load(std::memory_order_relaxed);
    if (at - program.seen_taken >= kItems) program.seen_taken = submitters.taken.load(std::memory_order_acquire);
    if (at - program.seen_taken < kItems) {
      slot_ = &rare.ring[at % kItems];
      slot_->number = program.published;
      return;
    }
    program.adding.unlock();
    locked_ = false;
    wait_for(at + kRoom - kItems, Patience::much);
  }
}

Turn::~Turn() {
  if (locked_) program.adding.unlock();
}

Hold::Hold() {
  if (submitter || forking) return;
  program.adding.lock();
  locked_ = true;
}

Hold::~Hold() {
  if (locked_) program.adding.unlock();
}

void Turn::publish() {
  slot_->state.store(Item::State::waiting, std::memory_order_relaxed);
  const std::size_t parameter_bytes = std::exchange(slot_, nullptr)->parameter_bytes;
  const std::uint32_t at = shared.added.load(std::memory_order_relaxed) + 1;
  if (!detail::unsettled.load(std::memory_order_relaxed)) {
    detail::unsettled.store(true, std::memory_order_release);
  }
  shared.added.store(at, std::memory_order_release);
  fetch(rare.ring[at % kItems], parameter_bytes);
  const std::uint64_t back = program.published++ - superseded_;
  if (supersedes_) std::atomic_thread_fence(std::memory_order_seq_cst);
  // Whoever starts to settle from here on waits for the new item as well.
  if (supersedes_ && back < kItems && rare.settling.load(std::memory_order_seq_cst) == 0) {
    const std::uint32_t earlier = at - 1 - static_cast<std::uint32_t>(back);
    auto waiting = Item::State::waiting;
    if (!reached(earlier + 1) && rare.ring[earlier % kItems].state.compare_exchange_strong(waiting, Item::State::out)) {
      count_dropped(Drop::record);
    }
  }
  std::atomic_signal_fence(std::memory_order_seq_cst);  // the submitter has the barrier
  if (rare.asleep.load(std::memory_order_relaxed) != 0) {
    rare.asleep.store(0, std::memory_order_relaxed);
    thread::wake_all(rare.asleep);
  }
  add_alone(program.deferred, 1);
  if (at % kWindow == 0) judge_window(kWindow);
}

void forgive(CUcontext gone) {
  const Turn turn;
  if (rare.late.load(std::memory_order_acquire) == CUDA_SUCCESS || rare.late_context.load(std::memory_order_relaxed) != gone) return;
  rare.late.store(CUDA_SUCCESS, std::memory_order_release);
}

bool drained_by(std::uint64_t deadline) {
  for (long pause = 10; !reached(shared.added.load(std::memory_order_acquire)); pause = pause < 200 ? pause * 2 : 200) {
    if (thread::monotonic_microseconds() >= deadline) return false;
    thread::sleep_microseconds(pause);
  }
  return true;
}

Counts counts() {
  const auto of = [](const std::atomic<std::uint64_t>& counter) { return counter.load(std::memory_order_relaxed); };
  const std::uint32_t gone = submitters.taken.load(std::memory_order_acquire);
  const std::uint64_t queued = shared.added.load(std::memory_order_acquire) - gone;
  return {of(program.deferred), of(program.straight), {of(program.dropped[0]), of(program.dropped[1]), of(program.dropped[2])},
          of(program.waits),    of(submitters.deepest),  queued,
          of(submitters.submitting_ns), of(program.waiting_ns)};
}

void count_straight() { add(program.straight, 1); }

void count_dropped(Drop kind) { add(program.dropped[static_cast<std::uint32_t>(kind)], 1); }

}  // namespace torpor::vm
