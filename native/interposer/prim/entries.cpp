#include "entries.h"

#include <atomic>
#include <cstdint>

#include "../generated/real.h"
#include "../profile/profile.h"
#include "../vm/answers.h"
#include "../vm/policy.h"
#include "resolve.h"
#include "spin_lock.h"
#include "table.h"

extern "C" {
__attribute__((visibility("hidden"))) extern void* torpor_entries[];
__attribute__((visibility("hidden"))) extern void* torpor_targets[];
__attribute__((visibility("hidden"))) extern void* const torpor_exported[];
__attribute__((visibility("hidden"))) void* torpor_resolve(std::uint32_t index);
}

namespace torpor::entries {
namespace {

constinit SpinLock lock;
constinit std::atomic<bool> ready{false};
constinit bool bypass = false;           // under `lock`: bodies that only know answers are passed over
constinit void* const* stubs = nullptr;  // under `lock`

void store(void*& place, void* address) { __atomic_store_n(&place, address, __ATOMIC_RELEASE); }

void aim_locked(std::uint32_t index) {
  const Body& body = kBodies[index];
  const bool ours = body.function != nullptr && !(body.answers && bypass);
  store(torpor_targets[index], ours ? body.function : real::address(static_cast<Symbol>(index)));
  store(torpor_entries[index], stubs != nullptr ? stubs[index] : torpor_targets[index]);
}

// At the first call of an exported function, before it is made.
void prepare() {
  if (ready.load(std::memory_order_acquire)) return;
  load_table();
  const bool answers = vm::answering();
  vm::read_whether_off();
  void* const* const wanted = profile::stubs_at_start();
  const SpinLock::Held held(lock);
  if (ready.load(std::memory_order_relaxed)) return;
  bypass = !answers;
  stubs = wanted;
  for (std::uint32_t i = 0; i < kSymbols; ++i) aim_locked(i);
  ready.store(true, std::memory_order_release);
}

}  // namespace

void* exported(Symbol symbol) { return torpor_exported[static_cast<std::uint32_t>(symbol)]; }

void* target(Symbol symbol) { return __atomic_load_n(&torpor_targets[static_cast<std::uint32_t>(symbol)], __ATOMIC_ACQUIRE); }

void aim(Symbol symbol) {
  const SpinLock::Held held(lock);
  if (ready.load(std::memory_order_relaxed)) aim_locked(static_cast<std::uint32_t>(symbol));
}

void route(void* const* to) {
  prepare();
  const SpinLock::Held held(lock);
  stubs = to;
  for (std::uint32_t i = 0; i < kSymbols; ++i) aim_locked(i);
}

}  // namespace torpor::entries

void* torpor_resolve(std::uint32_t index) {
  const auto symbol = static_cast<torpor::Symbol>(index & ~torpor::kEntryMark);
  if ((index & torpor::kEntryMark) == 0) {
    torpor::load_table();
    return torpor::real::address(symbol);
  }
  torpor::entries::prepare();
  return __atomic_load_n(&torpor_entries[static_cast<std::uint32_t>(symbol)], __ATOMIC_ACQUIRE);
}
