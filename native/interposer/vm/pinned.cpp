#include "pinned.h"

#include <map>
#include <mutex>
#include <shared_mutex>

#include "../generated/real.h"
#include "policy.h"

namespace torpor::vm::pinned {
namespace {

struct Range {
  std::size_t bytes;
  CUcontext context;
  std::uint64_t id;
};

// Never destroyed: other threads may look while the process exits.
struct Known {
  std::shared_mutex lock;
  std::map<std::uintptr_t, Range> ranges;
  std::uint64_t last_id = 0;
};

Known& known() {
  static auto* const instance = new Known;
  return *instance;
}

}  // namespace

std::uint64_t find(const void* address, std::size_t bytes) {
  const auto start = reinterpret_cast<std::uintptr_t>(address);
  const std::shared_lock hold(known().lock);
  auto after = known().ranges.upper_bound(start);
  if (after == known().ranges.begin()) return 0;
  const auto& [base, range] = *--after;
  return bytes <= range.bytes && start - base <= range.bytes - bytes ? range.id : 0;
}

void note(void* address, std::size_t bytes) noexcept {
  if (is_off() || address == nullptr) return;
  CUcontext context = nullptr;
  if (real::cuCtxGetCurrent(&context) != CUDA_SUCCESS) return;
  try {
    const std::unique_lock hold(known().lock);
    known().ranges[reinterpret_cast<std::uintptr_t>(address)] = {bytes, context, ++known().last_id};
  } catch (...) {  // then it is not known
  }
}

void forget(void* address) {
  if (is_off()) return;
  const std::unique_lock hold(known().lock);
  known().ranges.erase(reinterpret_cast<std::uintptr_t>(address));
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
