// Floating-point arithmetic as PTX defines it, where the CPU's own does not do: roundings, small formats, flushing.
// Nothing here depends on the rounding mode of the thread or on the CPU having fused multiply-add.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "exec/lanes.h"

namespace sim::exec {

enum class Round : uint8_t { nearest, zero, down, up, away, odd };

[[gnu::always_inline]] inline bool is_nan(float x) { return (std::bit_cast<uint32_t>(x) & 0x7fffffffu) > 0x7f800000u; }
[[gnu::always_inline]] inline bool is_nan(double x) {
  return (std::bit_cast<uint64_t>(x) & 0x7fffffffffffffffull) > 0x7ff0000000000000ull;
}

// f32 results that are no number have one pattern. In f64 an operand that is no number comes through, quiet; the last
// one of several; and what has no such operand has a pattern of its own.
[[gnu::always_inline]] inline float canonical(float x) {
  return is_nan(x) ? std::bit_cast<float>(0x7fffffffu) : x;
}
[[gnu::always_inline]] inline double quieted(double x) {
  return is_nan(x) ? std::bit_cast<double>(std::bit_cast<uint64_t>(x) | 1ull << 51) : x;
}
template <typename... T>
[[gnu::always_inline]] inline float settle(float result, T...) { return canonical(result); }
template <typename... T>
[[gnu::always_inline]] inline double settle(double result, T... operands) {
  double none = std::bit_cast<double>(0xfff8000000000000ull);
  ((none = is_nan(operands) ? quieted(operands) : none), ...);
  return is_nan(result) ? none : result;
}

// .ftz: subnormal numbers count as zero of the same sign.
[[gnu::always_inline]] inline float flush(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  return std::bit_cast<float>(bits & 0x7f800000u ? bits : bits & 0x80000000u);
}

[[gnu::always_inline]] inline Half flush(Half x) {
  return x.bits & 0x7c00 ? x : Half{static_cast<uint16_t>(x.bits & 0x8000)};
}

[[gnu::always_inline]] inline float next_toward_zero(float x) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(x) - 1);
}

// A double that lies between two neighbours is marked in its last bit, so that a later rounding to less precision
// comes out as if the exact value had been rounded. `error` has the sign of exact − x and is 0 when x is exact.
[[gnu::always_inline]] inline double mark(double x, double error) {
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  const bool inexact = error != 0 && !is_nan(error) && std::abs(x) <= std::numeric_limits<double>::max();
  if (!inexact || (bits & 1)) return x;
  const bool outward = (error > 0) == !(bits >> 63);
  return std::bit_cast<double>(outward ? bits + 1 : bits - 1);
}

[[gnu::always_inline]] inline double sum_marked(double a, double b) {
  const double sum = a + b;
  const double b_part = sum - a;
  const double error = (a - (sum - b_part)) + (b - b_part);
  return mark(sum, error);
}

// Rounds a marked double to float.
[[gnu::always_inline]] inline float narrow(double x, Round round) {
  const float nearest = static_cast<float>(x);
  if (round == Round::nearest || is_nan(x)) return nearest;
  const bool negative = std::signbit(x);
  const double wide = nearest;
  const bool toward_zero = round == Round::zero || (round == Round::down) != negative;
  const uint32_t bits = std::bit_cast<uint32_t>(nearest);
  if (toward_zero) return std::abs(wide) > std::abs(x) ? std::bit_cast<float>(bits - 1) : nearest;
  return std::abs(wide) < std::abs(x) ? std::bit_cast<float>(bits + 1) : nearest;
}

// Sums of opposite numbers are +0, and −0 when rounding down.
[[gnu::always_inline]] inline float add_rounded(float a, float b, Round round) {
  const double sum = sum_marked(a, b);
  if (sum == 0 && round == Round::down && (std::signbit(a) || std::signbit(b))) return -0.0f;
  return narrow(sum, round);
}
[[gnu::always_inline]] inline float mul_rounded(float a, float b, Round round) {
  return narrow(static_cast<double>(a) * b, round);
}
[[gnu::always_inline]] inline float fma_rounded(float a, float b, float c, Round round) {
  const double product = static_cast<double>(a) * b;
  const double sum = sum_marked(product, c);
  if (sum == 0 && round == Round::down && (std::signbit(product) || std::signbit(c))) return -0.0f;
  return narrow(sum, round);
}

Half half_from(double x, Round round = Round::nearest);   // x may be marked
Brain brain_from(double x, Round round = Round::nearest);
float float_of(Half x);
[[gnu::always_inline]] inline float float_of(Brain x) { return std::bit_cast<float>(uint32_t{x.bits} << 16); }

// f64 with a direction. Exact results are the same in every direction.
double add_rounded(double a, double b, Round round);
double mul_rounded(double a, double b, Round round);
double fma_rounded(double a, double b, double c, Round round);
double div_rounded(double a, double b, Round round);
double sqrt_rounded(double a, Round round);
float div_rounded(float a, float b, Round round);
float sqrt_rounded(float a, Round round);
float narrow_any(double x, Round round);  // an exact double

// To an integer value in floating-point form.
double to_integral(double x, Round round);

}  // namespace sim::exec
