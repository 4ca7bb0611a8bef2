// Makes an operation over 32 lanes from a function of one lane.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>

#include "exec/warp.h"

#if defined(__x86_64__)
#define SIM_WIDE __attribute__((target("avx2,fma,bmi,bmi2,lzcnt,popcnt")))
#else
#define SIM_WIDE
#endif

namespace sim::exec {

// 16-bit and packed floating-point values as they lie in registers.
struct Half {
  uint16_t bits;
};
struct Brain {
  uint16_t bits;
};
struct Half2 {
  uint32_t bits;
};
struct Brain2 {
  uint32_t bits;
};

// A register has 32 bits per lane for values of up to 32 bits, and 64 otherwise.
template <typename V>
using Stored = std::conditional_t<sizeof(V) == 8, uint64_t, uint32_t>;

template <typename V>
[[gnu::always_inline]] inline V unpack(Stored<V> stored) {
  if constexpr (std::is_same_v<V, Half> || std::is_same_v<V, Brain>) return V{static_cast<uint16_t>(stored)};
  else if constexpr (std::is_integral_v<V>) return static_cast<V>(stored);
  else return std::bit_cast<V>(stored);
}

template <typename V>
[[gnu::always_inline]] inline Stored<V> pack(V value) {
  if constexpr (std::is_same_v<V, Half> || std::is_same_v<V, Brain>) return value.bits;
  else if constexpr (std::is_integral_v<V>) return static_cast<std::make_unsigned_t<V>>(value);
  else return std::bit_cast<Stored<V>>(value);
}

template <typename S>
[[gnu::always_inline]] inline void store_lanes(S* to, const S* from, uint32_t mask) {
  if (mask == kAllLanes) {
    std::memcpy(to, from, sizeof(S) * kLanes);
  } else {
    for (unsigned i = 0; i < kLanes; ++i) to[i] = mask >> i & 1 ? from[i] : to[i];
  }
}

template <typename F, typename D, typename... A, size_t... I>
[[gnu::always_inline]] inline void lanes_body(Warp& warp, const Op& op, std::index_sequence<I...>) {
  const int32_t operands[] = {op.a, op.b, op.c, op.e};
  const auto inputs = std::make_tuple(warp.in<Stored<A>>(operands[I])...);
  if constexpr (std::is_same_v<D, bool>) {
    uint32_t bits = 0;
    for (unsigned i = 0; i < kLanes; ++i) bits |= uint32_t{F{}(unpack<A>(std::get<I>(inputs)[i])...)} << i;
    warp.set_predicate(op.d, bits);
  } else {
    alignas(64) Stored<D> result[kLanes];  // of its own: the destination may be an input too
    for (unsigned i = 0; i < kLanes; ++i) result[i] = pack<D>(F{}(unpack<A>(std::get<I>(inputs)[i])...));
    store_lanes(warp.out<Stored<D>>(op.d), result, warp.mask);
  }
}

template <typename F, typename D, typename... A>
void lanes_plain(Warp& warp, const Op& op) {
  lanes_body<F, D, A...>(warp, op, std::index_sequence_for<A...>{});
}

template <typename F, typename D, typename... A>
SIM_WIDE void lanes_wide(Warp& warp, const Op& op) {
  lanes_body<F, D, A...>(warp, op, std::index_sequence_for<A...>{});
}

bool has_wide();  // whether this CPU has what SIM_WIDE code needs

template <typename F, typename D, typename... A>
Run lanes_of(D (F::*)(A...) const) {
  return has_wide() ? &lanes_wide<F, D, A...> : &lanes_plain<F, D, A...>;
}

// An operation d = f(a, b, …) on all lanes. `f` has no state; its types say what the registers hold; a bool result is a
// predicate. Only lanes of the mask are changed, but f runs for all, so it must be defined for any value.
template <typename F>
Run lanes(F) {
  return lanes_of(&F::operator());
}

}  // namespace sim::exec
