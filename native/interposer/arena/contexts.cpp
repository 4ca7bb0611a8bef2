#include "contexts.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "../generated/real.h"
#include "../hooks/capture_hold.h"

namespace torpor::contexts {
namespace {

struct Registry {
  std::mutex lock;
  std::vector<Context> entries;
  std::uint64_t next_id = 1;
};

// Never destroyed: threads of the program may still allocate while the process exits.
Registry& registry() {
  static auto* const instance = new Registry;
  return *instance;
}

template <typename Match>
std::optional<Context> find_if(Match match) {
  auto& r = registry();
  const std::lock_guard guard(r.lock);
  const auto found = std::find_if(r.entries.begin(), r.entries.end(), match);
  if (found == r.entries.end()) return std::nullopt;
  return *found;
}

template <typename Match>
std::optional<Context> take_if(Match match) {
  auto& r = registry();
  const std::lock_guard guard(r.lock);
  const auto found = std::find_if(r.entries.begin(), r.entries.end(), match);
  if (found == r.entries.end()) return std::nullopt;
  const Context taken = *found;
  r.entries.erase(found);
  return taken;
}

// The entry of this handle; made if there is none yet.
Context enter(CUcontext handle, int device, bool primary) {
  auto& r = registry();
  const std::lock_guard guard(r.lock);
  for (const Context& entry : r.entries) {
    if (entry.handle == handle) return entry;
  }
  return r.entries.emplace_back(Context{handle, device, primary, r.next_id++});
}

// Retains the primary context of a device if it is active; never makes one.
std::optional<Held> hold_primary(int device) {
  if (!primary_active(device)) return std::nullopt;
  CUcontext handle = nullptr;
  if (real::cuDevicePrimaryCtxRetain(&handle, device) != CUDA_SUCCESS) return std::nullopt;
  return Held(handle, device, true);
}

}  // namespace

CUresult current(Context& out) {
  CUcontext handle = nullptr;
  CUresult result = real::cuCtxGetCurrent(&handle);
  if (result != CUDA_SUCCESS) return result;
  if (handle == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (const auto known = find(handle)) {
    out = *known;
    return CUDA_SUCCESS;
  }
  CUdevice device = 0;
  result = real::cuCtxGetDevice(&device);
  if (result != CUDA_SUCCESS) return result;
  if (const auto primary = hold_primary(device)) {
    out = enter(primary->handle(), device, true);
  } else {
    out = enter(handle, device, false);
  }
  return CUDA_SUCCESS;
}

std::optional<Context> find(std::uint64_t id) {
  return find_if([id](const Context& entry) { return entry.id == id; });
}

std::optional<Context> find(CUcontext handle) {
  return find_if([handle](const Context& entry) { return entry.handle == handle; });
}

std::optional<Context> on_device(int device) {
  return find_if([device](const Context& entry) { return entry.device == device; });
}

void created(CUcontext handle) {
  CUdevice device = 0;
  if (real::cuCtxGetDevice(&device) == CUDA_SUCCESS) enter(handle, device, false);
}

std::optional<Context> forget(CUcontext handle) {
  return take_if([handle](const Context& entry) { return entry.handle == handle; });
}

std::optional<Context> forget_primary(int device) {
  return take_if([device](const Context& entry) { return entry.primary && entry.device == device; });
}

void restore(const Context& context) {
  auto& r = registry();
  const std::lock_guard guard(r.lock);
  r.entries.push_back(context);
}

bool primary_active(int device) {
  unsigned int flags = 0;
  int active = 0;
  return real::cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS && active != 0;
}

Pushed::Pushed(CUcontext context) : status(real::cuCtxPushCurrent_v2(context)) {}

Pushed::~Pushed() {
  CUcontext popped = nullptr;
  if (status == CUDA_SUCCESS) real::cuCtxPopCurrent_v2(&popped);
}

CUresult synchronize(CUcontext context) {
  CUcontext now = nullptr;
  if (real::cuCtxGetCurrent(&now) == CUDA_SUCCESS && now == context) return real::cuCtxSynchronize();
  const Pushed pushed(context);
  return pushed.status != CUDA_SUCCESS ? pushed.status : real::cuCtxSynchronize();
}

std::optional<CUresult> synchronize_unless_capturing(CUcontext context) {
  const ContextWait wait;
  if (!wait.allowed()) return std::nullopt;
  return synchronize(context);
}

Held::Held(Held&& other) noexcept
    : handle_(other.handle_), device_(other.device_), retained_(std::exchange(other.retained_, false)) {}

Held::~Held() {
  if (retained_) real::cuDevicePrimaryCtxRelease_v2(device_);
}

std::vector<Held> all() {
  std::vector<Held> out;
  int count = 0;
  if (real::cuDeviceGetCount(&count) != CUDA_SUCCESS) return out;
  for (int device = 0; device < count; ++device) {
    if (auto primary = hold_primary(device)) out.push_back(std::move(*primary));
  }
  auto& r = registry();
  const std::lock_guard guard(r.lock);
  for (const Context& entry : r.entries) {
    if (!entry.primary) out.emplace_back(entry.handle, entry.device, false);
  }
  return out;
}

bool is_gone(CUresult result) {
  return result == CUDA_ERROR_INVALID_CONTEXT || result == CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

}  // namespace torpor::contexts
