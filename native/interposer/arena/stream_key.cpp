#include "stream_key.h"

#include "../generated/real.h"
#include "../prim/thread.h"

namespace torpor::arena {

CUresult stream_key(CUstream stream, bool per_thread_default, StreamKey& out) {
  const bool own = stream == CU_STREAM_PER_THREAD || (stream == nullptr && per_thread_default);
  const bool standard = own || stream == nullptr || stream == CU_STREAM_LEGACY;
  out = {};
  if (own) {
    out.stream = CU_STREAM_PER_THREAD;
    out.thread = thread::serial();
  } else if (!standard) {
    out.stream = stream;
  }
  const CUresult result = standard ? real::cuCtxGetCurrent(&out.context) : real::cuStreamGetCtx(stream, &out.context);
  return result == CUDA_SUCCESS && out.context == nullptr ? CUDA_ERROR_INVALID_CONTEXT : result;
}

std::optional<contexts::Context> context_of(const StreamKey& key) {
  if (const auto known = contexts::find(key.context)) return known;
  const contexts::Pushed pushed(key.context);
  contexts::Context out;
  return pushed.status == CUDA_SUCCESS && contexts::current(out) == CUDA_SUCCESS ? std::optional(out) : std::nullopt;
}

CUevent recorded(const StreamKey& key) {
  const contexts::Pushed pushed(key.context);
  CUevent event = nullptr;
  if (pushed.status != CUDA_SUCCESS || real::cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) return nullptr;
  if (real::cuEventRecord(event, key.stream) == CUDA_SUCCESS) return event;
  real::cuEventDestroy_v2(event);
  return nullptr;
}

bool is_done(const StreamKey& key) {
  const contexts::Pushed pushed(key.context);
  return pushed.status == CUDA_SUCCESS && real::cuStreamQuery(key.stream) == CUDA_SUCCESS;
}

}  // namespace torpor::arena
