#include "merging.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>

#include "../hooks/residual.h"
#include "../prim/thread.h"
#include "bargain.h"
#include "policy.h"

namespace torpor::vm::merging {
namespace {

constexpr std::size_t kMostGraphs = 8;
constexpr std::size_t kMostGivenUp = 64;

// How often a sequence has to wait in the queue as a whole before a graph is made of it: that costs some dozens of launches.
std::uint32_t worth() { return merges_at_once() ? 1 : 8; }

struct Merger {
  std::mutex lock;
  Recogniser recogniser{merges_at_once() ? std::size_t{2} : 4, merges_at_once() ? std::size_t{4} : 16};
  std::vector<std::unique_ptr<Merged>> known;
  std::deque<std::vector<Step>> given_up;  // refused by the driver, or without a gain; not looked for any more
  std::uint64_t looks = 0;
  std::array<Usual, kWorks> alone;  // what each kind of step takes by itself

  void learn(std::vector<Step> steps);
  void drop(const Merged* useless) noexcept;
  Merged* match(const Items& items, std::uint32_t waiting);
  std::uint64_t apart_ns(const Merged& merged) const;
};

// Made by the submitter and never destroyed: it may go on while the process exits.
constinit std::atomic<Merger*> merger{nullptr};
constinit std::atomic<bool> over{false};
constinit std::atomic<std::uint64_t> merged{0}, graphs{0}, fallbacks{0}, saved_ns{0};

Merger* at_work() {
  if (!merges() || over.load(std::memory_order_acquire)) return nullptr;
  if (Merger* const made = merger.load(std::memory_order_relaxed)) return made;
  auto* const made = new Merger;
  merger.store(made, std::memory_order_release);
  return made;
}

void Merger::learn(std::vector<Step> steps) {
  if (steps.empty()) return;
  if (std::ranges::any_of(known, [&](const auto& each) { return each->steps() == steps; })) return;
  if (std::ranges::find(given_up, steps) != given_up.end()) return;
  auto fresh = std::make_unique<Merged>(std::move(steps));
  fresh->last_use = looks;
  if (known.size() < kMostGraphs) {
    known.push_back(std::move(fresh));
  } else {
    *std::ranges::min_element(known, {}, [](const auto& each) { return each->last_use; }) = std::move(fresh);
  }
}

// Never throws: it may have been launched just now.
void Merger::drop(const Merged* useless) noexcept {
  try {
    given_up.push_back(useless->steps());
    if (given_up.size() > kMostGivenUp) given_up.pop_front();
  } catch (...) {  // then it is tried again
  }
  std::erase_if(known, [&](const auto& each) { return each.get() == useless; });
}

// The longest one that the items begin with.
Merged* Merger::match(const Items& items, std::uint32_t waiting) {
  Merged* best = nullptr;
  for (const auto& each : known) {
    if (each->size() > waiting || (best != nullptr && best->size() >= each->size())) continue;
    Step step;
    std::uint32_t same = 0;
    while (same < each->size() && step_of(items(same), step) && step == each->steps()[same]) ++same;
    if (same == each->size()) best = each.get();
  }
  return best;
}

// What its steps would take by themselves.
std::uint64_t Merger::apart_ns(const Merged& merged) const {
  std::uint64_t sum = 0;
  for (const Step& step : merged.steps()) sum += alone[static_cast<std::size_t>(step.work)].ns();
  return sum;
}

}  // namespace

std::uint32_t submit(const Items& items, std::uint32_t waiting) try {
  Merger* const self = at_work();
  if (self == nullptr || waiting < 2 || active_captures() > 0) return 0;
  const std::lock_guard hold(self->lock);
  ++self->looks;
  Merged* const found = self->match(items, waiting);
  if (found == nullptr) return 0;
  found->last_use = self->looks;
  if (!found->built() && ++found->seen < worth()) return 0;
  const std::uint64_t start = thread::monotonic_nanoseconds();
  const bool fresh = !found->built();
  const bool launched = (fresh ? found->build(items) : found->update(items)) && found->launch();
  if (!launched) {  // nothing has been submitted, so each goes by itself, with an error of its own if there is one
    self->drop(found);
    fallbacks.fetch_add(1, std::memory_order_relaxed);
    return 0;
  }
  const std::uint64_t taken = thread::monotonic_nanoseconds() - start, apart = self->apart_ns(*found);
  const std::uint32_t size = found->size();
  if (!fresh) {
    if (apart > taken) saved_ns.fetch_add(apart - taken, std::memory_order_relaxed);
    if (!found->trial.pays(taken, apart) && !merges_at_once()) self->drop(found);
  }
  merged.fetch_add(size, std::memory_order_relaxed);
  graphs.fetch_add(1, std::memory_order_relaxed);
  return size;
} catch (...) {
  give_up();  // without memory
  return 0;
}

void submitted(const Item& item, std::uint64_t took) try {
  Merger* const self = at_work();
  if (self == nullptr) return;
  const std::lock_guard hold(self->lock);
  Step step;
  if (!step_of(item, step)) {
    self->learn(self->recogniser.note_other());
    return;
  }
  self->alone[static_cast<std::size_t>(step.work)].note(took);
  self->learn(self->recogniser.note(step));
} catch (...) {
  give_up();
}

void forget() {
  if (!in_use()) [[likely]] return;
  Merger* const self = merger.load(std::memory_order_acquire);
  if (self == nullptr) [[likely]] return;
  const std::lock_guard hold(self->lock);
  self->known.clear();
  self->given_up.clear();
  self->recogniser.forget();
}

void give_up() { over.store(true, std::memory_order_release); }

Counts counts() {
  const auto of = [](const std::atomic<std::uint64_t>& counter) { return counter.load(std::memory_order_relaxed); };
  return {of(merged), of(graphs), of(fallbacks), of(saved_ns)};
}

}  // namespace torpor::vm::merging
