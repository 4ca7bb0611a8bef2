// Arithmetic of one lane in each floating-point format: what the instructions add, sub, mul, fma, min and max compute.
#pragma once

#include "exec/floats.h"

namespace sim::exec {

// f16 and bf16 by way of double: products are exact there, sums are marked, so that one rounding remains.
[[gnu::always_inline]] inline double wide(Half x) { return float_of(x); }
[[gnu::always_inline]] inline double wide(Brain x) { return float_of(x); }
template <typename S>
S small(double x);
template <>
inline Half small<Half>(double x) { return half_from(x); }
template <>
inline Brain small<Brain>(double x) { return brain_from(x); }

template <typename T>
inline constexpr bool is_small = std::is_same_v<T, Half> || std::is_same_v<T, Brain>;

template <typename T>
[[gnu::always_inline]] inline T plus(T a, T b) {
  if constexpr (is_small<T>) return small<T>(sum_marked(wide(a), wide(b)));
  else return settle(a + b, a, b);
}
template <typename T>
[[gnu::always_inline]] inline T minus(T a, T b) {
  if constexpr (is_small<T>) return small<T>(sum_marked(wide(a), -wide(b)));
  else return settle(a - b, a, b);
}
template <typename T>
[[gnu::always_inline]] inline T times(T a, T b) {
  if constexpr (is_small<T>) return small<T>(wide(a) * wide(b));
  else return settle(a * b, a, b);
}
template <typename T>
[[gnu::always_inline]] inline T fused(T a, T b, T c) {
  if constexpr (is_small<T>) return small<T>(sum_marked(wide(a) * wide(b), wide(c)));
  else if constexpr (std::is_same_v<T, float>) return canonical(__builtin_fmaf(a, b, c));
  else return settle(__builtin_fma(a, b, c), a, c, b);  // of several that are no numbers the second factor comes through
}

template <typename T>
[[gnu::always_inline]] inline bool nan_in(T a) {
  if constexpr (is_small<T>) return is_nan(float_of(a));
  else return is_nan(a);
}
template <typename T>
[[gnu::always_inline]] inline bool minus_sign(T a) {
  if constexpr (is_small<T>) return a.bits >> 15;
  else return std::signbit(a);
}
template <typename T>
[[gnu::always_inline]] inline auto ordered(T a) {
  if constexpr (is_small<T>) return float_of(a);
  else return a;
}
template <typename T>
[[gnu::always_inline]] inline T no_number() {
  if constexpr (is_small<T>) return T{0x7fff};
  else return std::bit_cast<float>(0x7fffffffu);
}
// What is no number, as the instructions that only look at signs give it.
template <typename T>
[[gnu::always_inline]] inline T passed(T a) {
  if constexpr (std::is_same_v<T, double>) return quieted(a);
  else return no_number<T>();
}
// -0 counts as less than +0. With `strict`, one operand that is no number makes the result none.
template <typename T, bool largest, bool strict>
[[gnu::always_inline]] inline T extreme(T a, T b) {
  if (nan_in(a)) return strict || nan_in(b) ? passed(b) : b;
  if (nan_in(b)) return strict ? passed(b) : a;
  if (ordered(a) == ordered(b)) return minus_sign(a) == largest ? b : a;
  return (ordered(a) < ordered(b)) == largest ? b : a;
}

[[gnu::always_inline]] inline float saturated(float x) {
  return is_nan(x) || std::signbit(x) ? 0.0f : x > 1.0f ? 1.0f : x;
}

}  // namespace sim::exec
