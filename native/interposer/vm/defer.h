// Deferring one call: what all overrides here have in common.
#pragma once

#include <cstring>
#include <optional>
#include <type_traits>
#include <utility>

#include "../arena/guarded.h"
#include "../generated/real.h"
#include "../hooks/residual.h"
#include "policy.h"
#include "proofs.h"
#include "queue.h"

namespace torpor::vm {

// The context in which the calling thread may defer a call on this stream. Nothing where a call has to go straight: while
// anything is being captured, and on a thread's own default stream, which is another one in the submitter.
inline std::optional<CUcontext> deferrable(CUstream stream) {
  if (!willing() || active_captures() > 0 || stream == CU_STREAM_PER_THREAD) return std::nullopt;
  CUcontext context = nullptr;
  if (real::cuCtxGetCurrent(&context) != CUDA_SUCCESS || context == nullptr) return std::nullopt;
  return context;
}

// Makes the call itself, after everything that was deferred.
template <typename Straight>
CUresult go_straight(Straight straight) {
  if (const CUresult earlier = settle(); earlier != CUDA_SUCCESS) return earlier;
  if (in_use()) count_straight();
  return straight();
}

// What becomes of a call.
enum class Way { straight, queue, nowhere };

// Bytes of a call's arguments that say anything.
template <typename Arguments>
std::size_t used_of(const Arguments& arguments) {
  return sizeof arguments;
}

// Puts a call on the queue, `call(arguments)` in the submitter, if `fill` says so. Otherwise nothing has happened.
template <typename Arguments, typename Fill>
Way enqueue(CUcontext context, CUresult (*call)(Item&), const Arguments& arguments, Fill fill) {
  static_assert(std::is_trivially_copyable_v<Arguments> && sizeof arguments <= Item::kArguments);
  Turn turn;
  Item* const item = turn.slot();
  if (item == nullptr) return Way::straight;
  item->parameter_bytes = 0;
  if (const Way way = fill(turn, *item); way != Way::queue) return way;
  item->run = call;
  item->context = context;
  std::memcpy(item->arguments, &arguments, used_of(arguments));
  turn.publish();
  return Way::queue;
}

template <typename Arguments>
Arguments arguments_of(const Item& item) {
  Arguments arguments;
  std::memcpy(&arguments, item.arguments, sizeof arguments);
  return arguments;
}

// Remembers that the driver took such a call, made when `generation` was that of the proofs. Another thread may have changed
// since then what the call's judgement depends on.
inline void prove(const Key& key, Layout&& layout, std::uint64_t generation) {
  const Turn turn;
  if (proofs::generation() == generation) proofs::add(key, std::move(layout));
}

inline bool always() { return true; }
inline Way into_queue(Turn&, Item&, CUcontext) { return Way::queue; }

// Defers a call without parameters of its own, once such a call was right; `lasting` says whether that proves anything
// for the next one, and `proven` what becomes of it then.
template <typename Arguments, typename Straight, typename Lasting = bool (*)(), typename Proven = Way (*)(Turn&, Item&, CUcontext)>
CUresult defer_proven(Key key, CUstream stream, CUresult (*call)(Item&), const Arguments& arguments, Straight straight,
                      Lasting lasting = always, Proven proven = into_queue) noexcept {
  return arena::guarded([&] {
    const std::uint64_t generation = proofs::generation();
    const auto context = deferrable(stream);
    if (!context) return go_straight(straight);
    key.context = reinterpret_cast<std::uint64_t>(*context);
    key.stream = reinterpret_cast<std::uint64_t>(stream);
    const Way way = enqueue(*context, call, arguments, [&](Turn& turn, Item& item) {
      return proofs::find(key) != nullptr ? proven(turn, item, *context) : Way::straight;
    });
    if (way != Way::straight) return CUDA_SUCCESS;
    const CUresult result = go_straight(straight);
    if (result == CUDA_SUCCESS && lasting()) prove(key, {}, generation);
    return result;
  });
}

}  // namespace torpor::vm
