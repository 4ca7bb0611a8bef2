#include "residual.h"

#include <unistd.h>

#include <atomic>

#include "../generated/real.h"
#include "../prim/spin_lock.h"

namespace torpor::residual {
namespace {

constexpr std::uint32_t kKinds = static_cast<std::uint32_t>(Kind::kCount);
constexpr std::uint32_t kRoom = 4096;

struct Entry {
  std::uint64_t key;
  std::uint64_t size;
  Kind kind;
};

// A flat table, so that a child forked in the middle of a change finds at worst one wrong entry, and drops all anyway.
constinit Entry entries[kRoom]{};
constinit std::uint32_t used = 0;
constinit std::atomic<std::uint32_t> counts[kKinds]{};
constinit std::int32_t process = 0;
constinit SpinLock lock;

std::atomic<std::uint32_t>& count(Kind kind) { return counts[static_cast<std::uint32_t>(kind)]; }

// With the lock held. What the parent had is not the child's.
void forget_parent() {
  const std::int32_t self = ::getpid();
  if (process == self) return;
  process = self;
  used = 0;
  for (auto& each : counts) each.store(0, std::memory_order_relaxed);
}

Entry* find(Kind kind, std::uint64_t key) {
  for (std::uint32_t i = 0; i < used; ++i) {
    if (entries[i].kind == kind && entries[i].key == key) return &entries[i];
  }
  return nullptr;
}

void drop(Entry* entry) {
  count(entry->kind).fetch_sub(1, std::memory_order_relaxed);
  *entry = entries[--used];
}

bool still_managed(std::uint64_t address) {
  int managed = 0;
  return real::cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address) == CUDA_SUCCESS && managed != 0;
}

// The driver is asked with the lock released.
void drop_freed(Kind kind) {
  for (std::uint32_t i = 0;; ++i) {
    std::uint64_t key = 0;
    {
      const SpinLock::Held held(lock);
      while (i < used && entries[i].kind != kind) ++i;
      if (i >= used) return;
      key = entries[i].key;
    }
    if (still_managed(key)) continue;
    remove(kind, key);
    --i;  // another entry has moved into this place
  }
}

}  // namespace

void add(Kind kind, std::uint64_t key, std::uint64_t size) {
  const SpinLock::Held held(lock);
  forget_parent();
  if (find(kind, key) != nullptr) return;
  count(kind).fetch_add(1, std::memory_order_relaxed);
  if (used < kRoom) entries[used++] = {key, size, kind};
}

void remove(Kind kind, std::uint64_t key) {
  if (count(kind).load(std::memory_order_relaxed) == 0) return;
  const SpinLock::Held held(lock);
  forget_parent();
  if (Entry* entry = find(kind, key); entry != nullptr) drop(entry);
}

void remove_range(Kind kind, std::uint64_t address, std::uint64_t size) {
  if (count(kind).load(std::memory_order_relaxed) == 0) return;
  const SpinLock::Held held(lock);
  forget_parent();
  for (std::uint32_t i = 0; i < used;) {
    const bool inside = entries[i].kind == kind && entries[i].size != 0 && entries[i].key - address < size;
    if (inside) {
      drop(&entries[i]);
    } else {
      ++i;
    }
  }
}

bool contains(Kind kind, std::uint64_t key) {
  if (count(kind).load(std::memory_order_relaxed) == 0) return false;
  const SpinLock::Held held(lock);
  forget_parent();
  return find(kind, key) != nullptr;
}

Snapshot snapshot() {
  {
    const SpinLock::Held held(lock);
    forget_parent();
  }
  drop_freed(Kind::managed);
  drop_freed(Kind::managed_variable);
  const auto now = [](Kind kind) { return count(kind).load(std::memory_order_relaxed); };
  return {now(Kind::managed),
          now(Kind::managed_variable) + now(Kind::managed_library),
          now(Kind::ipc_exported),
          now(Kind::ipc_imported),
          now(Kind::vmm_imported),
          now(Kind::multicast),
          now(Kind::external),
          now(Kind::capture)};
}

}  // namespace torpor::residual

std::uint32_t torpor::active_captures() {
  return residual::count(residual::Kind::capture).load(std::memory_order_relaxed);
}
