#include "host_backed.h"

#include <sys/mman.h>

#include <atomic>
#include <cstdlib>
#include <iterator>
#include <map>
#include <mutex>
#include <string_view>

#include "../generated/real.h"
#include "../prim/errno_kept.h"

namespace torpor::managed {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kHugePage = 2ULL << 20;

struct Table {
  std::mutex lock;
  std::map<CUdeviceptr, Allocation> allocations;
  std::atomic<std::size_t> count{0};
};

// Never destroyed: threads of the program may still free while the process exits.
Table& table() {
  static auto* const instance = new Table;
  return *instance;
}

std::uint64_t rounded(std::uint64_t size) { return (size + kPage - 1) / kPage * kPage; }

// Large memory begins at a huge page, which makes pinning it ten times faster.
void* reserve(std::uint64_t size) {
  const std::uint64_t room = size >= kHugePage ? size + kHugePage : size;
  void* const base = ::mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED || room == size) return base == MAP_FAILED ? nullptr : base;
  const auto start = reinterpret_cast<std::uint64_t>(base);
  const std::uint64_t at = (start + kHugePage - 1) / kHugePage * kHugePage;
  if (at != start) ::munmap(base, at - start);
  if (start + room != at + size) ::munmap(reinterpret_cast<void*>(at + size), start + room - at - size);
  ::madvise(reinterpret_cast<void*>(at), size, MADV_HUGEPAGE);
  return reinterpret_cast<void*>(at);
}

void give_back(const Allocation& allocation) {
  const ErrnoKept kept;
  void* const base = reinterpret_cast<void*>(allocation.address);
  real::cuMemHostUnregister(base);
  ::munmap(base, rounded(allocation.size));
}

}  // namespace

bool wanted() {
  static const bool on = [] {
    const char* const setting = std::getenv("TORPOR_MANAGED");
    return setting != nullptr && std::string_view(setting) == "host";
  }();
  return on;
}

CUresult allocate(std::uint64_t size, CUdeviceptr& out) {
  const ErrnoKept kept;
  contexts::Context context;
  CUresult result = contexts::current(context);
  if (result != CUDA_SUCCESS) return result;
  if (size > UINT64_MAX - 2 * kHugePage) return CUDA_ERROR_OUT_OF_MEMORY;
  const std::uint64_t length = rounded(size);
  void* const base = reserve(length);
  if (base == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  // A child has no use for it, and copying pinned pages at a fork would cost a lot.
  ::madvise(base, length, MADV_DONTFORK);
  result = real::cuMemHostRegister_v2(base, length, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
  CUdeviceptr seen = 0;
  if (result == CUDA_SUCCESS) {
    result = real::cuMemHostGetDevicePointer_v2(&seen, base, 0);
    // One address for both is the point of managed memory; hardware that has two cannot give it.
    if (result == CUDA_SUCCESS && seen != reinterpret_cast<CUdeviceptr>(base)) result = CUDA_ERROR_NOT_SUPPORTED;
    if (result != CUDA_SUCCESS) real::cuMemHostUnregister(base);
  }
  if (result != CUDA_SUCCESS) {
    ::munmap(base, length);
    return result;
  }
  Table& t = table();
  const std::lock_guard guard(t.lock);
  t.allocations.emplace(seen, Allocation{seen, size, context.id, context.handle, context.device, {}});
  t.count.store(t.allocations.size(), std::memory_order_relaxed);
  out = seen;
  return CUDA_SUCCESS;
}

std::optional<Allocation> holding(CUdeviceptr address, std::uint64_t size) {
  if (!wanted()) return std::nullopt;
  Table& t = table();
  if (t.count.load(std::memory_order_relaxed) == 0) return std::nullopt;
  const std::lock_guard guard(t.lock);
  const auto after = t.allocations.upper_bound(address);
  if (after == t.allocations.begin()) return std::nullopt;
  const Allocation& allocation = std::prev(after)->second;
  // Pages belong to an allocation as a whole, and frameworks advise on whole pages.
  const std::uint64_t length = rounded(allocation.size);
  const std::uint64_t offset = address - allocation.address;
  if (offset >= length || size > length - offset) return std::nullopt;
  return allocation;
}

std::optional<Allocation> find(CUdeviceptr address) { return holding(address, 1); }

void advise(const Allocation& allocation, const Advice& advice) {
  Table& t = table();
  const std::lock_guard guard(t.lock);
  const auto found = t.allocations.find(allocation.address);
  if (found != t.allocations.end()) found->second.advice = advice;
}

CUresult wait(const Allocation& allocation) {
  const CUresult result = contexts::synchronize_unless_capturing(allocation.context).value_or(CUDA_SUCCESS);
  return contexts::is_gone(result) ? CUDA_SUCCESS : result;
}

bool release(const Allocation& allocation) {
  Table& t = table();
  {
    const std::lock_guard guard(t.lock);
    if (t.allocations.erase(allocation.address) == 0) return false;
    t.count.store(t.allocations.size(), std::memory_order_relaxed);
  }
  give_back(allocation);
  return true;
}

void context_gone(const contexts::Context& context) {
  if (!wanted()) return;
  Table& t = table();
  std::vector<Allocation> owned;
  {
    const std::lock_guard guard(t.lock);
    for (const auto& [address, allocation] : t.allocations) {
      if (allocation.owner == context.id) owned.push_back(allocation);
    }
  }
  for (const Allocation& allocation : owned) release(allocation);
}

}  // namespace torpor::managed
