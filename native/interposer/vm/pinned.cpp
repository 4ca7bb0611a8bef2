#include "pinned.h"

#include <map>
#include <mutex>
#include <shared_mutex>

#include "../generated/hooks.h"
#include "../generated/real.h"
#include "policy.h"

namespace torpor::vm::pinned {
namespace {

struct Range {
  std::size_t bytes;
  CUcontext context;
};

// Never destroyed: other threads may look while the process exits.
struct Known {
  std::shared_mutex lock;
  std::map<std::uintptr_t, Range> ranges;
};

Known& known() {
  static auto* const instance = new Known;
  return *instance;
}

CUresult noted(CUresult result, void** address, std::size_t bytes) noexcept {
  if (result != CUDA_SUCCESS || is_off() || *address == nullptr) return result;
  CUcontext context = nullptr;
  if (real::cuCtxGetCurrent(&context) != CUDA_SUCCESS) return result;
  try {
    const std::unique_lock hold(known().lock);
    known().ranges[reinterpret_cast<std::uintptr_t>(*address)] = {bytes, context};
  } catch (...) {  // then it is not known
  }
  return result;
}

}  // namespace

bool contains(const void* address, std::size_t bytes) {
  const auto start = reinterpret_cast<std::uintptr_t>(address);
  const std::shared_lock hold(known().lock);
  auto after = known().ranges.upper_bound(start);
  if (after == known().ranges.begin()) return false;
  const auto& [base, range] = *--after;
  return bytes <= range.bytes && start - base <= range.bytes - bytes;
}

void forget_context(CUcontext context) {
  const std::unique_lock hold(known().lock);
  std::erase_if(known().ranges, [&](const auto& entry) { return entry.second.context == context; });
}

void forget_all() {
  const std::unique_lock hold(known().lock);
  known().ranges.clear();
}

}  // namespace torpor::vm::pinned

namespace pinned = torpor::vm::pinned;
namespace real = torpor::real;

extern "C" CUresult torpor_hook_cuMemHostAlloc(void** pp, size_t bytesize, unsigned int Flags) {
  return pinned::noted(real::cuMemHostAlloc(pp, bytesize, Flags), pp, bytesize);
}

extern "C" CUresult torpor_hook_cuMemAllocHost(void** pp, unsigned int bytesize) {
  return pinned::noted(real::cuMemAllocHost(pp, bytesize), pp, bytesize);
}

extern "C" CUresult torpor_hook_cuMemAllocHost_v2(void** pp, size_t bytesize) {
  return pinned::noted(real::cuMemAllocHost_v2(pp, bytesize), pp, bytesize);
}

// Before the driver frees it: the addresses may be the program's own memory at once.
extern "C" CUresult torpor_hook_cuMemFreeHost(void* p) {
  if (!torpor::vm::is_off()) {
    const std::unique_lock hold(pinned::known().lock);
    pinned::known().ranges.erase(reinterpret_cast<std::uintptr_t>(p));
  }
  return real::cuMemFreeHost(p);
}
