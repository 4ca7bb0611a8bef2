#include "owned.h"

#include <atomic>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "../arena/arena.h"
#include "../generated/real.h"
#include "../hooks/residual.h"
#include "../prim/errno_kept.h"
#include "place.h"
#include "registered.h"

namespace torpor::pinned {
namespace {

// Write-combined memory is of a kind that only the driver can make.
constexpr unsigned int kFlags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
// With one address space for host and devices the driver makes all of its host memory so, whatever is asked for.
constexpr unsigned int kRegistered = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;

struct Table {
  std::mutex lock;
  std::map<std::uintptr_t, Allocation> entries;
  std::atomic<std::size_t> count{0};
};

// Never destroyed: threads of the program may still free while the process exits.
Table& table() {
  static auto* const instance = new Table;
  return *instance;
}

bool is_wanted(std::size_t size, unsigned int flags) {
  const std::size_t others = table().count.load(std::memory_order_relaxed) + registered::count();
  return is_worth_a_file(size, others) && (flags & ~kFlags) == 0;
}

// Whether there is anything to look for. In a forked child there is not: its memory is no part of what it inherited.
bool none() { return table().count.load(std::memory_order_relaxed) == 0 || arena::Arena::get() == nullptr; }

CUresult enrol(void* base, std::size_t size) {
  const CUresult result = real::cuMemHostRegister_v2(base, size, kRegistered);
  if (result != CUDA_SUCCESS) return result;
  CUdeviceptr seen = 0;
  CUresult same = real::cuMemHostGetDevicePointer_v2(&seen, base, 0);
  if (same == CUDA_SUCCESS && seen != reinterpret_cast<CUdeviceptr>(base)) same = CUDA_ERROR_NOT_SUPPORTED;
  if (same != CUDA_SUCCESS) real::cuMemHostUnregister(base);
  return same;
}

// An allocation leaves the table before anything is done to it: its addresses may be somebody else's right after.
std::optional<Allocation> taken(std::uintptr_t base) {
  Table& t = table();
  const std::lock_guard guard(t.lock);
  const auto found = t.entries.find(base);
  if (found == t.entries.end()) return std::nullopt;
  const Allocation allocation = found->second;
  t.entries.erase(found);
  t.count.store(t.entries.size(), std::memory_order_relaxed);
  return allocation;
}

void enter(const Allocation& allocation) {
  Table& t = table();
  const std::lock_guard guard(t.lock);
  t.entries.emplace(reinterpret_cast<std::uintptr_t>(allocation.base), allocation);
  t.count.store(t.entries.size(), std::memory_order_relaxed);
}

}  // namespace

std::optional<void*> allocate(std::size_t size, unsigned int flags) {
  if (!is_wanted(size, flags) || !place_usable() || arena::Arena::get() == nullptr) return std::nullopt;
  if (active_captures() > 0) return std::nullopt;  // what a capture allows is the driver's to say
  const ErrnoKept kept;
  contexts::Context context;
  if (contexts::current(context) != CUDA_SUCCESS) return std::nullopt;
  void* const base = map_file(size);
  if (base == nullptr) return std::nullopt;
  if (enrol(base, size) != CUDA_SUCCESS) {
    unmap_file(base, size);
    return std::nullopt;
  }
  enter({base, size, flags, context.id});
  return base;
}

std::size_t count() { return table().count.load(std::memory_order_relaxed); }

std::optional<Allocation> holding(CUdeviceptr address) {
  if (none()) return std::nullopt;
  Table& t = table();
  const std::lock_guard guard(t.lock);
  const auto after = t.entries.upper_bound(address);
  if (after == t.entries.begin()) return std::nullopt;
  const auto& [base, allocation] = *std::prev(after);
  if (address - base >= allocation.size) return std::nullopt;
  return allocation;
}

std::optional<CUresult> release(void* base) {
  if (none()) return std::nullopt;
  const auto allocation = taken(reinterpret_cast<std::uintptr_t>(base));
  if (!allocation) return std::nullopt;
  const ErrnoKept kept;
  const CUresult result = real::cuMemHostUnregister(base);
  if (result != CUDA_SUCCESS) {
    enter(*allocation);  // as with the driver's own: what it does not free stays
    return result;
  }
  unmap_file(base, allocation->size);
  return CUDA_SUCCESS;
}

void context_gone(const contexts::Context& context) {
  if (none()) return;
  Table& t = table();
  std::vector<std::uintptr_t> owned;
  {
    const std::lock_guard guard(t.lock);
    for (const auto& [base, allocation] : t.entries) {
      if (allocation.owner == context.id) owned.push_back(base);
    }
  }
  const ErrnoKept kept;
  for (const std::uintptr_t base : owned) {
    const auto allocation = taken(base);
    if (!allocation) continue;
    real::cuMemHostUnregister(allocation->base);  // where another context still knows it
    unmap_file(allocation->base, allocation->size);
  }
}

Totals totals() {
  Totals out;
  if (none()) return out;
  Table& t = table();
  const std::lock_guard guard(t.lock);
  for (const auto& [base, allocation] : t.entries) {
    ++out.count;
    out.bytes += allocation.size;
  }
  return out;
}

}  // namespace torpor::pinned
