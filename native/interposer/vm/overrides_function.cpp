// Attributes and cache configurations, dropped when they are set to what they are; and the end of what proofs speak of.
#include <map>
#include <mutex>
#include <tuple>

#include "../generated/hooks.h"
#include "../hooks/residual_key.h"
#include "answers.h"
#include "defer.h"
#include "forget.h"
#include "pinned.h"

namespace torpor::vm {
namespace {

// A function is a handle in a context (`device` is -1 then) or a library's kernel on a device; or a context is meant.
using Setting = std::tuple<std::uint64_t, int, int>;  // handle, device, attribute
constexpr int kInContext = -1;
constexpr int kCacheConfig = -1, kContextCacheConfig = -2;  // beside the driver's attributes

// A cache configuration and the carve-out attribute set the same thing.
int subject(int attribute) {
  return attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT ? kCacheConfig : attribute;
}

// Never destroyed: other threads may look while the process exits.
struct Known {
  std::mutex setting;  // one thread sets at a time, or the last value here might not be the driver's last
  std::mutex lock;
  std::map<Setting, int> values;
};

Known& known() {
  static auto* const instance = new Known;
  return *instance;
}

// The same function may be known as a kernel and as a handle in a context, so what was set by one way says nothing about
// the other.
void remember(const Setting& setting, int value) {
  const std::lock_guard hold(known().lock);
  const auto& [handle, device, attribute] = setting;
  std::erase_if(known().values, [&](const auto& entry) {
    const auto& [other, on, what] = entry.first;
    return subject(what) == subject(attribute) && (what != attribute || (on == kInContext) != (device == kInContext));
  });
  known().values[setting] = value;
}

void unknown(const Setting& setting) {
  const std::lock_guard hold(known().lock);
  const auto& [handle, device, attribute] = setting;
  std::erase_if(known().values, [&](const auto& entry) {
    const auto& [other, on, what] = entry.first;
    return subject(what) == subject(attribute) && (what != attribute || (other == handle && on == device));
  });
}

bool is_set(const Setting& setting, int value) {
  const std::lock_guard hold(known().lock);
  const auto found = known().values.find(setting);
  return found != known().values.end() && found->second == value;
}

// What to set something of a function means in a thread without a context, or whose context was destroyed, the driver judges.
bool has_context() {
  CUdevice device = 0;
  return real::cuCtxGetDevice(&device) == CUDA_SUCCESS;
}

// `straight` notes that answers change, which they do not where the call is left out.
template <typename Straight>
CUresult set(const Setting& setting, int value, Straight straight) noexcept {
  if (!in_use()) return go_straight(straight);
  const auto& [handle, device, attribute] = setting;
  const auto asked = asked_with(handle, static_cast<std::uint64_t>(device), static_cast<std::uint64_t>(attribute),
                                static_cast<std::uint64_t>(value));
  // The same again, in the same thread: whatever may set it otherwise, or end the function, changes what this depends on.
  constexpr auto kAsked = Symbol::cuFuncSetAttribute;
  if (keeps<kAsked, Group::thread, Group::context, Group::function, Group::limit>(asked)) {
    count_dropped(Drop::setting);
    return CUDA_SUCCESS;
  }
  return arena::guarded([&] {
    const std::lock_guard hold(known().setting);
    const std::uint64_t now = stamp<Group::thread, Group::context, Group::function, Group::limit>();
    if (is_set(setting, value) && (device != kInContext || has_context())) {
      keep<kAsked>(now, asked);
      count_dropped(Drop::setting);
      return CUDA_SUCCESS;
    }
    if (const CUresult earlier = settle(); earlier != CUDA_SUCCESS) return earlier;
    unknown(setting);
    const auto forget = [] {
      merging::forget();
      const Turn turn;
      proofs::forget_all();
    };
    forget();  // a launch that was right may be wrong now
    const CUresult result = straight();
    forget();  // and one that was made meanwhile, too
    if (result == CUDA_SUCCESS) remember(setting, value);
    return result;
  });
}

}  // namespace

void forget_all() {
  if (!in_use()) [[likely]] return;
  {
    const std::lock_guard hold(known().lock);
    known().values.clear();
  }
  merging::forget();
  const Turn turn;
  proofs::forget_all();
  recordings::lose_sight();
}

}  // namespace torpor::vm

namespace vm = torpor::vm;
namespace real = torpor::real;

extern "C" CUresult torpor_hook_cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value) {
  const vm::Setting setting{reinterpret_cast<std::uint64_t>(hfunc), vm::kInContext, static_cast<int>(attrib)};
  return vm::set(setting, value, [&] { return torpor_change_cuFuncSetAttribute(hfunc, attrib, value); });
}

extern "C" CUresult torpor_hook_cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice dev) {
  const vm::Setting setting{reinterpret_cast<std::uint64_t>(kernel), dev, static_cast<int>(attrib)};
  return vm::set(setting, val, [&] { return torpor_change_cuKernelSetAttribute(attrib, val, kernel, dev); });
}

extern "C" CUresult torpor_hook_cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config) {
  const vm::Setting setting{reinterpret_cast<std::uint64_t>(hfunc), vm::kInContext, vm::kCacheConfig};
  return vm::set(setting, config, [&] { return torpor_change_cuFuncSetCacheConfig(hfunc, config); });
}

extern "C" CUresult torpor_hook_cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev) {
  const vm::Setting setting{reinterpret_cast<std::uint64_t>(kernel), dev, vm::kCacheConfig};
  return vm::set(setting, config, [&] { return torpor_change_cuKernelSetCacheConfig(kernel, config, dev); });
}

extern "C" CUresult torpor_hook_cuCtxSetCacheConfig(CUfunc_cache config) {
  const auto straight = [&] { return torpor_change_cuCtxSetCacheConfig(config); };
  CUcontext context = nullptr;
  if (real::cuCtxGetCurrent(&context) != CUDA_SUCCESS || context == nullptr) return vm::go_straight(straight);
  return vm::set({reinterpret_cast<std::uint64_t>(context), vm::kInContext, vm::kContextCacheConfig}, config, straight);
}

extern "C" CUresult torpor_hook_cuModuleUnload(CUmodule hmod) {
  vm::forget_all();
  return real::cuModuleUnload(hmod);
}

extern "C" CUresult torpor_hook_cuLibraryUnload(CUlibrary library) {
  vm::forget_all();
  return torpor::residual::forgotten(real::cuLibraryUnload(library), torpor::residual::Kind::managed_library, library);
}

extern "C" CUresult torpor_hook_cuDevicePrimaryCtxRetain(CUcontext* pctx, CUdevice dev) {
  const CUresult result = real::cuDevicePrimaryCtxRetain(pctx, dev);
  if (result == CUDA_SUCCESS) vm::on_device(dev);
  return result;
}

extern "C" CUresult torpor_hook_cuGreenCtxCreate(CUgreenCtx* phCtx, CUdevResourceDesc desc, CUdevice dev,
                                                 unsigned int flags) {
  const CUresult result = real::cuGreenCtxCreate(phCtx, desc, dev, flags);
  if (result == CUDA_SUCCESS) vm::on_device(dev);
  vm::merging::give_up();  // which part of the device a kernel has is its stream's
  return result;
}

extern "C" CUresult torpor_hook_cuGreenCtxDestroy(CUgreenCtx hCtx) {
  vm::forget_all();
  vm::pinned::forget_all();  // which context was its own is not known
  return real::cuGreenCtxDestroy(hCtx);
}

extern "C" CUresult torpor_hook_cuCtxDetach(CUcontext ctx) {
  vm::forget_all();
  vm::pinned::forget_context(ctx);
  return real::cuCtxDetach(ctx);
}

extern "C" CUresult torpor_hook_cuGraphExecDestroy(CUgraphExec hGraphExec) {
  vm::forget_object(hGraphExec);
  return real::cuGraphExecDestroy(hGraphExec);
}
