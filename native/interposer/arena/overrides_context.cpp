// Observes the life of contexts: their memory goes with them, and a freeze waits for each.
#include "../generated/hooks.h"
#include "../generated/real.h"
#include "../managed/host_backed.h"
#include "../pinned/owned.h"
#include "../share/events.h"
#include "../vm/forget.h"
#include "../vm/pinned.h"
#include "arena.h"
#include "contexts.h"
#include "guarded.h"
#include "pools.h"

namespace torpor::arena {
namespace {

CUresult after_creation(CUresult result, const CUcontext* context, CUdevice device) {
  if (result != CUDA_SUCCESS) return result;
  contexts::created(*context);
  vm::on_device(device);
  return result;
}

void after_end(const contexts::Context& context) {
  vm::forgive(context.handle);
  vm::pinned::forget_context(context.handle);
  share::events::context_gone(context.handle);
  managed::context_gone(context);
  pinned::context_gone(context);
  if (Arena* const arena = Arena::get()) arena->context_gone(context);
}

// The entry goes first: once the driver has destroyed the context it may give the same handle to a new one.
template <typename Destroy>
CUresult destroying(CUcontext context, Destroy destroy) {
  vm::forget_all();
  pools::context_ends(context);
  const auto no_questions = share::events::pause(context);
  const auto known = contexts::forget(context);
  const CUresult result = destroy();
  if (!known) return result;
  if (result != CUDA_SUCCESS) {
    contexts::restore(*known);
  } else {
    after_end(*known);
  }
  return result;
}

// `survives` tells, after the call, whether the primary context and its memory are still there.
template <typename Call, typename Survives>
CUresult ending_primary(CUdevice device, Call call, Survives survives) {
  vm::forget_all();
  const auto primary = contexts::on_device(device);
  if (primary) pools::context_ends(primary->handle);
  const auto no_questions = share::events::pause(primary ? primary->handle : nullptr);
  const CUresult result = call();
  if (result != CUDA_SUCCESS || survives()) return result;
  if (const auto known = contexts::forget_primary(device)) after_end(*known);
  return result;
}

CUresult release_primary(CUdevice device, CUresult (*call)(CUdevice)) {
  return ending_primary(device, [&] { return call(device); }, [&] { return contexts::primary_active(device); });
}

CUresult reset_primary(CUdevice device, CUresult (*call)(CUdevice)) {
  return ending_primary(device, [&] { return call(device); }, [] { return false; });
}

// Both ends of a peer access: the calling thread's context and the one whose memory it reaches.
struct Ends {
  contexts::Context from, to;
};

std::optional<Ends> ends(CUcontext peer) {
  Ends out;
  if (contexts::current(out.from) != CUDA_SUCCESS) return std::nullopt;
  const contexts::Pushed pushed(peer);
  if (pushed.status != CUDA_SUCCESS || contexts::current(out.to) != CUDA_SUCCESS) return std::nullopt;
  return out;
}

}  // namespace
}  // namespace torpor::arena

using torpor::arena::Arena;
using torpor::arena::guarded;
namespace arena_ = torpor::arena;
namespace real = torpor::real;

extern "C" CUresult torpor_hook_cuCtxCreate(CUcontext* pctx, unsigned int flags, CUdevice dev) {
  return guarded([&] { return arena_::after_creation(real::cuCtxCreate(pctx, flags, dev), pctx, dev); });
}

extern "C" CUresult torpor_hook_cuCtxCreate_v2(CUcontext* pctx, unsigned int flags, CUdevice dev) {
  return guarded([&] { return arena_::after_creation(real::cuCtxCreate_v2(pctx, flags, dev), pctx, dev); });
}

extern "C" CUresult torpor_hook_cuCtxCreate_v3(CUcontext* pctx, CUexecAffinityParam* paramsArray, int numParams,
                                               unsigned int flags, CUdevice dev) {
  return guarded(
      [&] { return arena_::after_creation(real::cuCtxCreate_v3(pctx, paramsArray, numParams, flags, dev), pctx, dev); });
}

extern "C" CUresult torpor_hook_cuCtxCreate_v4(CUcontext* pctx, CUctxCreateParams* ctxCreateParams,
                                               unsigned int flags, CUdevice dev) {
  return guarded(
      [&] { return arena_::after_creation(real::cuCtxCreate_v4(pctx, ctxCreateParams, flags, dev), pctx, dev); });
}

extern "C" CUresult torpor_hook_cuCtxDestroy(CUcontext ctx) {
  return guarded([&] { return arena_::destroying(ctx, [&] { return real::cuCtxDestroy(ctx); }); });
}

extern "C" CUresult torpor_hook_cuCtxDestroy_v2(CUcontext ctx) {
  return guarded([&] { return arena_::destroying(ctx, [&] { return real::cuCtxDestroy_v2(ctx); }); });
}

extern "C" CUresult torpor_hook_cuDevicePrimaryCtxRelease(CUdevice dev) {
  return guarded([&] { return arena_::release_primary(dev, real::cuDevicePrimaryCtxRelease); });
}

extern "C" CUresult torpor_hook_cuDevicePrimaryCtxRelease_v2(CUdevice dev) {
  return guarded([&] { return arena_::release_primary(dev, real::cuDevicePrimaryCtxRelease_v2); });
}

extern "C" CUresult torpor_hook_cuDevicePrimaryCtxReset(CUdevice dev) {
  return guarded([&] { return arena_::reset_primary(dev, real::cuDevicePrimaryCtxReset); });
}

extern "C" CUresult torpor_hook_cuDevicePrimaryCtxReset_v2(CUdevice dev) {
  return guarded([&] { return arena_::reset_primary(dev, real::cuDevicePrimaryCtxReset_v2); });
}

extern "C" CUresult torpor_hook_cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags) {
  return guarded([&] {
    const CUresult result = real::cuCtxEnablePeerAccess(peerContext, Flags);
    Arena* const arena = Arena::get();
    if (result != CUDA_SUCCESS || arena == nullptr) return result;
    const auto ends = arena_::ends(peerContext);
    const CUresult opened = ends ? arena->open_peer(ends->from, ends->to) : CUDA_ERROR_INVALID_CONTEXT;
    if (opened != CUDA_SUCCESS) real::cuCtxDisablePeerAccess(peerContext);
    return opened;
  });
}

extern "C" CUresult torpor_hook_cuCtxDisablePeerAccess(CUcontext peerContext) {
  return guarded([&] {
    const CUresult result = real::cuCtxDisablePeerAccess(peerContext);
    Arena* const arena = Arena::get();
    if (result != CUDA_SUCCESS || arena == nullptr) return result;
    if (const auto ends = arena_::ends(peerContext)) arena->close_peer(ends->from, ends->to);
    return result;
  });
}
