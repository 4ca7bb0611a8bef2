// Which stream a call means.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>

#include "contexts.h"

namespace torpor::arena {

// A stream as far as order goes: its context, its handle (null: the legacy default stream), and of the per-thread default
// stream the thread (thread::serial()).
struct StreamKey {
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  std::uint64_t thread = 0;
  auto operator<=>(const StreamKey&) const = default;
};

// CUDA_ERROR_NOT_SUPPORTED for a stream whose context is not to be had; what the driver says of one that is none.
CUresult stream_key(CUstream stream, bool per_thread_default, StreamKey& out);

std::optional<contexts::Context> context_of(const StreamKey& key);

// An event of ours that has just been recorded in the stream; null when the driver gives none.
CUevent recorded(const StreamKey& key);

// Whether the driver says that all work in the stream itself is done. Not for a stream that may be captured.
bool is_done(const StreamKey& key);

}  // namespace torpor::arena
