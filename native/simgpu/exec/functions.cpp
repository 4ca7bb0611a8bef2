// Division, roots and approximate functions. What PTX calls approximate is computed in double and rounded once, so it is
// at least as accurate as hardware and may differ from it in the last bits.
#include <cmath>

#include "exec/apply.h"
#include "exec/float_math.h"
#include "exec/integer.h"

namespace sim::exec {
namespace {

template <float (*f)(float)>
Run single(bool ftz) {
  return ftz ? lanes([](float x) { return flush(canonical(f(flush(x)))); }) : lanes([](float x) { return canonical(f(x)); });
}

float reciprocal_root(float x) { return static_cast<float>(1.0 / std::sqrt(static_cast<double>(x))); }
float sine(float x) { return static_cast<float>(std::sin(static_cast<double>(x))); }
float cosine(float x) { return static_cast<float>(std::cos(static_cast<double>(x))); }
float power_of_two(float x) { return static_cast<float>(std::exp2(static_cast<double>(x))); }
float logarithm(float x) { return static_cast<float>(std::log2(static_cast<double>(x))); }
float hyperbolic(float x) { return static_cast<float>(std::tanh(static_cast<double>(x))); }

template <float (*f)(float)>
Half half_of(Half x) { return half_from(f(float_of(x))); }
template <float (*f)(float)>
Brain brain_of(Brain x) { return brain_from(f(float_of(x))); }

template <float (*f)(float)>
void approximate(Builder& b) {
  if (!b.take("approx")) b.reject("expected .approx");
  const bool ftz = b.take("ftz");
  const Type type = b.take_type();
  switch (type) {
    case Type::f32: apply(b, single<f>(ftz), type, {type}); break;
    case Type::f16: apply(b, lanes([](Half x) { return half_of<f>(x); }), type, {type}); break;
    case Type::bf16: apply(b, lanes([](Brain x) { return brain_of<f>(x); }), type, {type}); break;
    case Type::f16x2:
      apply(b, lanes([](Half2 x) {
              const uint32_t low = half_of<f>(Half{static_cast<uint16_t>(x.bits)}).bits;
              const uint32_t high = half_of<f>(Half{static_cast<uint16_t>(x.bits >> 16)}).bits;
              return Half2{low | high << 16};
            }), type, {type});
      break;
    case Type::bf16x2:
      apply(b, lanes([](Brain2 x) {
              const uint32_t low = brain_of<f>(Brain{static_cast<uint16_t>(x.bits)}).bits;
              const uint32_t high = brain_of<f>(Brain{static_cast<uint16_t>(x.bits >> 16)}).bits;
              return Brain2{low | high << 16};
            }), type, {type});
      break;
    default: b.reject("not for this type");
  }
}

// Approximate f64 works on the upper words of operand and result, as on hardware: a first guess for Newton's method.
// Subnormal numbers count as zero.
double upper_word(double x) {
  const double upper = std::bit_cast<double>(std::bit_cast<uint64_t>(x) & 0xffffffff00000000ull);
  return std::abs(upper) < std::numeric_limits<double>::min() ? std::copysign(0.0, upper) : upper;
}
double upper_result(double result, double x) {
  if (is_nan(result)) return settle(result, x);
  const bool finite = std::abs(result) <= std::numeric_limits<double>::max();
  return upper_word(std::bit_cast<double>(std::bit_cast<uint64_t>(result) + (finite ? 0x80000000ull : 0)));
}

struct Mode {
  bool approximate = false, full = false, ftz = false, directed = false;
  Round round = Round::nearest;
};

Mode take_mode(Builder& b) {
  Mode mode;
  for (;;) {
    if (b.take("approx")) mode.approximate = true;
    else if (b.take("full")) mode.full = true;
    else if (b.take("ftz")) mode.ftz = true;
    else if (b.take("rn")) mode.directed = true;
    else if (b.take("rz")) mode.directed = true, mode.round = Round::zero;
    else if (b.take("rm")) mode.directed = true, mode.round = Round::down;
    else if (b.take("rp")) mode.directed = true, mode.round = Round::up;
    else return mode;
  }
}

template <Round round, typename T>
Run divide(bool ftz) {
  if constexpr (std::is_same_v<T, float>)
    if (ftz) return lanes([](T x, T y) { return flush(canonical(round == Round::nearest ? flush(x) / flush(y) : div_rounded(flush(x), flush(y), round))); });
  // Of two operands that are no numbers hardware's division passes the first one on; its other operations the second.
  return lanes([](T x, T y) { return settle(round == Round::nearest ? x / y : div_rounded(x, y, round), y, x); });
}
template <Round round, typename T>
Run invert(bool ftz) {
  if constexpr (std::is_same_v<T, float>)
    if (ftz) return lanes([](T x) { return flush(canonical(round == Round::nearest ? 1 / flush(x) : div_rounded(T{1}, flush(x), round))); });
  return lanes([](T x) { return settle(round == Round::nearest ? 1 / x : div_rounded(T{1}, x, round), x); });
}
template <Round round, typename T>
Run square_root(bool ftz) {
  if constexpr (std::is_same_v<T, float>)
    if (ftz) return lanes([](T x) { return flush(canonical(round == Round::nearest ? std::sqrt(flush(x)) : sqrt_rounded(flush(x), round))); });
  return lanes([](T x) { return settle(round == Round::nearest ? std::sqrt(x) : sqrt_rounded(x, round), x); });
}

#define SIM_BY_ROUND(function, type)                                                                        \
  (mode.round == Round::zero ? function<Round::zero, type>(mode.ftz)                                        \
   : mode.round == Round::down ? function<Round::down, type>(mode.ftz)                                      \
   : mode.round == Round::up ? function<Round::up, type>(mode.ftz) : function<Round::nearest, type>(mode.ftz))

void div(Builder& b) {
  const Mode mode = take_mode(b);
  const Type type = b.take_type();
  if (type == Type::f32) apply(b, SIM_BY_ROUND(divide, float), type, {type, type});
  else if (type == Type::f64 && mode.directed && !mode.ftz) apply(b, SIM_BY_ROUND(divide, double), type, {type, type});
  else if (is_float(type)) b.reject("not for this type");
  else divide_integer(b, type, false);
}

void rem(Builder& b) {
  const Type type = b.take_type();
  if (is_float(type)) b.reject("not for this type");
  divide_integer(b, type, true);
}

void rcp(Builder& b) {
  const Mode mode = take_mode(b);
  const Type type = b.take_type();
  if (type == Type::f32) apply(b, SIM_BY_ROUND(invert, float), type, {type});
  else if (type != Type::f64) b.reject("not for this type");
  else if (mode.approximate) apply(b, lanes([](double x) { return upper_result(1 / upper_word(x), upper_word(x)); }), type, {type});
  else apply(b, SIM_BY_ROUND(invert, double), type, {type});
}

void sqrt(Builder& b) {
  const Mode mode = take_mode(b);
  const Type type = b.take_type();
  if (type == Type::f32) apply(b, SIM_BY_ROUND(square_root, float), type, {type});
  else if (type == Type::f64) apply(b, SIM_BY_ROUND(square_root, double), type, {type});
  else b.reject("not for this type");
}

void rsqrt(Builder& b) {
  const Mode mode = take_mode(b);
  const Type type = b.take_type();
  if (!mode.approximate) b.reject("expected .approx");
  if (type == Type::f32) apply(b, single<reciprocal_root>(mode.ftz), type, {type});
  else if (type == Type::f64) apply(b, lanes([](double x) { return upper_result(1 / std::sqrt(upper_word(x)), upper_word(x)); }), type, {type});
  else b.reject("not for this type");
}

// testp.{finite,infinite,number,notanumber,normal,subnormal}
void testp(Builder& b) {
  const int which = b.take("finite") ? 0 : b.take("infinite") ? 1 : b.take("number") ? 2 : b.take("notanumber") ? 3
                    : b.take("normal") ? 4 : b.take("subnormal") ? 5 : -1;
  const Type type = b.take_type();
  if (which < 0 || (type != Type::f32 && type != Type::f64)) b.reject("unknown test");
  const auto make = [&]<typename T>(T) -> Run {
    switch (which) {
      case 0: return lanes([](T x) -> bool { return std::isfinite(x); });
      case 1: return lanes([](T x) -> bool { return std::isinf(x); });
      case 2: return lanes([](T x) -> bool { return !is_nan(x); });
      case 3: return lanes([](T x) -> bool { return is_nan(x); });
      case 4: return lanes([](T x) -> bool { return std::isnormal(x); });
      default: return lanes([](T x) -> bool { return std::fpclassify(x) == FP_SUBNORMAL; });
    }
  };
  apply(b, type == Type::f32 ? make(float{}) : make(double{}), Type::pred, {type});
}

const Instructions known{{"div", div}, {"rem", rem}, {"rcp", rcp}, {"sqrt", sqrt}, {"rsqrt", rsqrt},
                         {"sin", approximate<sine>}, {"cos", approximate<cosine>}, {"ex2", approximate<power_of_two>},
                         {"lg2", approximate<logarithm>}, {"tanh", approximate<hyperbolic>}, {"testp", testp}};

}  // namespace
}  // namespace sim::exec
