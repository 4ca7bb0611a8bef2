#include "exec/floats.h"

#include <cfenv>

namespace sim::exec {
namespace {

// Rounds to `fraction` bits after the point of numbers whose least exponent is `least`; the result as sign, exponent
// field and fraction field put together. Overflow is seen by the caller's `greatest` exponent field.
uint16_t small_from(double x, Round round, int fraction, int least, uint16_t infinity) {
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  const uint16_t sign = bits >> 63 ? 0x8000 : 0;
  if (is_nan(x)) return 0x7fff;
  const double size = std::abs(x);
  if (size > std::numeric_limits<double>::max()) return sign | infinity;
  if (size == 0) return sign;
  int exponent = std::ilogb(size);
  if (exponent < least) exponent = least;
  const double scaled = std::ldexp(size, fraction - exponent);  // exact, below 2^(fraction+1) except for rounding
  double whole = std::floor(scaled);
  const double rest = scaled - whole;
  const bool odd = std::fmod(whole, 2) != 0;
  const bool up = round == Round::nearest ? rest > 0.5 || (rest == 0.5 && odd)
                  : round == Round::away  ? rest >= 0.5
                  : round == Round::up    ? rest > 0 && !sign
                  : round == Round::down  ? rest > 0 && sign
                                          : false;
  whole += up;
  // The fraction's carry runs into the exponent by itself; subnormal numbers have no leading one.
  const int64_t field = (int64_t{exponent} - least) * (int64_t{1} << fraction) + static_cast<int64_t>(whole);
  if (field >= infinity) {
    const bool stays = round == Round::zero || (round == Round::up && sign) || (round == Round::down && !sign);
    return sign | (stays ? infinity - 1 : infinity);
  }
  return sign | static_cast<uint16_t>(field);
}

// The CPU's own directed rounding, around arithmetic that the compiler must not move or fold.
class Direction {
 public:
  explicit Direction(Round round) : before_(std::fegetround()) {
    std::fesetround(round == Round::zero ? FE_TOWARDZERO : round == Round::down ? FE_DOWNWARD
                    : round == Round::up ? FE_UPWARD : FE_TONEAREST);
  }
  ~Direction() { std::fesetround(before_); }
  Direction(const Direction&) = delete;
  Direction& operator=(const Direction&) = delete;

 private:
  int before_;
};

template <typename T, typename F>
T directed(Round round, F compute) {
  Direction direction(round);
  volatile T result = compute();
  return result;
}

}  // namespace

Half half_from(double x, Round round) { return {small_from(x, round, 10, -14, 0x7c00)}; }
Brain brain_from(double x, Round round) { return {small_from(x, round, 7, -126, 0x7f80)}; }

float float_of(Half x) {
  const uint32_t sign = uint32_t{x.bits & 0x8000u} << 16;
  const uint32_t exponent = x.bits >> 10 & 31, fraction = x.bits & 1023;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
  if (exponent) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  const float value = static_cast<float>(fraction) * 0x1p-24f;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
}

double add_rounded(double a, double b, Round round) {
  volatile double x = a, y = b;
  return directed<double>(round, [&] { return x + y; });
}
double mul_rounded(double a, double b, Round round) {
  volatile double x = a, y = b;
  return directed<double>(round, [&] { return x * y; });
}
double fma_rounded(double a, double b, double c, Round round) {
  volatile double x = a, y = b, z = c;
  return directed<double>(round, [&] { return std::fma(x, y, z); });
}
double div_rounded(double a, double b, Round round) {
  volatile double x = a, y = b;
  return directed<double>(round, [&] { return x / y; });
}
double sqrt_rounded(double a, Round round) {
  volatile double x = a;
  return directed<double>(round, [&] { return std::sqrt(x); });
}
float div_rounded(float a, float b, Round round) {
  volatile float x = a, y = b;
  return directed<float>(round, [&] { return x / y; });
}
float sqrt_rounded(float a, Round round) {
  volatile float x = a;
  return directed<float>(round, [&] { return std::sqrt(x); });
}
float narrow_any(double x, Round round) {
  volatile double wide = x;
  return directed<float>(round, [&] { return static_cast<float>(wide); });
}

double to_integral(double x, Round round) {
  switch (round) {
    case Round::zero:
      return std::trunc(x);
    case Round::down:
      return std::floor(x);
    case Round::up:
      return std::ceil(x);
    default:
      break;
  }
  const double down = std::floor(x);
  const double rest = x - down;
  const double result = rest > 0.5 || (rest == 0.5 && std::fmod(down, 2) != 0) ? down + 1 : down;
  return std::copysign(result, x);
}

}  // namespace sim::exec
