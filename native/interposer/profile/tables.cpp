#include "tables.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cstddef>

#include "../prim/entries.h"
#include "../prim/errno_kept.h"
#include "../prim/thread.h"

static_assert(offsetof(torpor::profile::Table, calls) == 0);

extern "C" {
constinit thread_local torpor::profile::Table* torpor_counts
    __attribute__((tls_model("initial-exec"), visibility("hidden"))) = nullptr;
__attribute__((visibility("hidden"))) void* torpor_first_count(std::uint32_t index);
}

namespace torpor::profile {
namespace {

constinit std::atomic<Table*> tables{nullptr};  // pushed at the front, never taken away
constinit std::atomic<std::uint32_t> made{0};
constinit std::atomic<std::uint32_t> key_state{0};
pthread_key_t key;

void forget(Table& table) {
  for (std::uint64_t& number : table.calls) __atomic_store_n(&number, 0, __ATOMIC_RELAXED);
  for (std::uint64_t& number : table.bytes) __atomic_store_n(&number, 0, __ATOMIC_RELAXED);
  for (std::uint64_t& number : table.ticks) __atomic_store_n(&number, 0, __ATOMIC_RELAXED);
}

// In a forked child: what was counted is the parent's, and of its threads only this one is here.
void begin_anew() {
  for (Table* table = tables.load(std::memory_order_acquire); table != nullptr; table = table->next) {
    forget(*table);
    table->owner_tid.store(table == torpor_counts ? thread::id() : 0, std::memory_order_relaxed);
  }
}

void let_go(void* value) {
  torpor_counts = nullptr;
  static_cast<Table*>(value)->owner_tid.store(0, std::memory_order_release);
}

bool key_ready() {
  enum : std::uint32_t { kUnmade, kMaking, kMade, kFailed };
  std::uint32_t state = key_state.load(std::memory_order_acquire);
  if (state == kUnmade && key_state.compare_exchange_strong(state, kMaking)) {
    const bool works = ::pthread_key_create(&key, let_go) == 0 && ::pthread_atfork(nullptr, nullptr, begin_anew) == 0;
    key_state.store(works ? kMade : kFailed, std::memory_order_release);
    thread::wake_all(key_state);
    return works;
  }
  while ((state = key_state.load(std::memory_order_acquire)) == kMaking) thread::wait_while(key_state, kMaking);
  return state == kMade;
}

Table* claim_free(std::int32_t tid) {
  for (Table* table = tables.load(std::memory_order_acquire); table != nullptr; table = table->next) {
    std::int32_t nobody = 0;
    if (table->owner_tid.load(std::memory_order_relaxed) == 0 &&
        table->owner_tid.compare_exchange_strong(nobody, tid, std::memory_order_acq_rel)) {
      return table;
    }
  }
  return nullptr;
}

// Frees tables of threads that ended without their destructors (a raw clone).
void free_dead() {
  for (Table* table = tables.load(std::memory_order_acquire); table != nullptr; table = table->next) {
    std::int32_t tid = table->owner_tid.load(std::memory_order_acquire);
    if (tid != 0 && !thread::alive(tid)) table->owner_tid.compare_exchange_strong(tid, 0, std::memory_order_acq_rel);
  }
}

Table* make(std::int32_t tid) {
  void* const memory =
      ::mmap(nullptr, sizeof(Table), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  auto* const table = static_cast<Table*>(memory);
  table->owner_tid.store(tid, std::memory_order_relaxed);
  table->next = tables.load(std::memory_order_relaxed);
  while (!tables.compare_exchange_weak(table->next, table, std::memory_order_acq_rel)) {
  }
  made.fetch_add(1, std::memory_order_relaxed);
  return table;
}

Table* claim() {
  const ErrnoKept kept;
  if (!key_ready()) return nullptr;
  const std::int32_t tid = thread::id();
  Table* table = claim_free(tid);
  // Asking the kernel about each thread is dear, so only as the number of tables doubles.
  if (table == nullptr && std::has_single_bit(made.load(std::memory_order_relaxed))) {
    free_dead();
    table = claim_free(tid);
  }
  if (table == nullptr) table = make(tid);
  if (table == nullptr) return nullptr;
  if (::pthread_setspecific(key, table) != 0) {
    table->owner_tid.store(0, std::memory_order_release);
    return nullptr;
  }
  torpor_counts = table;
  return table;
}

}  // namespace

Table* own_table() { return torpor_counts != nullptr ? torpor_counts : claim(); }

void sum(Sums& into) {
  into = {};
  const auto total = [](std::uint64_t* to, const std::uint64_t* from, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) to[i] += __atomic_load_n(&from[i], __ATOMIC_RELAXED);
  };
  for (const Table* table = tables.load(std::memory_order_acquire); table != nullptr; table = table->next) {
    total(into.calls, table->calls, kSymbols);
    total(into.bytes, table->bytes, kDirections);
    total(into.ticks, table->ticks, kSymbols);
  }
}

std::uint32_t table_count() { return made.load(std::memory_order_relaxed); }

}  // namespace torpor::profile

void* torpor_first_count(std::uint32_t index) {
  if (torpor::profile::Table* const table = torpor::profile::own_table(); table != nullptr) {
    torpor::profile::add(table->calls[index], 1);
  }
  return torpor::entries::target(static_cast<torpor::Symbol>(index));
}
