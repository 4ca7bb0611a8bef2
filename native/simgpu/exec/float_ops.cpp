// add, sub, mul, fma, min, max, abs, neg and their like, for all types.
#include "exec/apply.h"
#include "exec/float_math.h"
#include "exec/integer.h"

namespace sim::exec {
namespace {

struct Modes {
  Round round = Round::nearest;
  bool ftz = false, saturate = false, relu = false;
};

Modes take_modes(Builder& b) {
  Modes modes;
  for (;;) {
    if (b.take("rn")) modes.round = Round::nearest;
    else if (b.take("rz")) modes.round = Round::zero;
    else if (b.take("rm")) modes.round = Round::down;
    else if (b.take("rp")) modes.round = Round::up;
    else if (b.take("ftz")) modes.ftz = true;
    else if (b.take("sat")) modes.saturate = true;
    else if (b.take("relu")) modes.relu = true;
    else return modes;
  }
}

// A packed operation works on both halves.
template <typename S, typename P, typename F, typename... A>
[[gnu::always_inline]] inline P both(F f, A... args) {
  const uint32_t low = f(S{static_cast<uint16_t>(args.bits)}...).bits;
  const uint32_t high = f(S{static_cast<uint16_t>(args.bits >> 16)}...).bits;
  return P{low | high << 16};
}

template <typename F, size_t n>
struct Spread;
template <typename F>
struct Spread<F, 1> {
  template <typename T> static Run of() { return lanes([](T x) -> T { return F::f(x); }); }
  template <typename S, typename P> static Run of2() {
    return lanes([](P x) -> P { return both<S, P>([](S p) -> S { return F::f(p); }, x); });
  }
};
template <typename F>
struct Spread<F, 2> {
  template <typename T> static Run of() { return lanes([](T x, T y) -> T { return F::f(x, y); }); }
  template <typename S, typename P> static Run of2() {
    return lanes([](P x, P y) -> P { return both<S, P>([](S p, S q) -> S { return F::f(p, q); }, x, y); });
  }
};
template <typename F>
struct Spread<F, 3> {
  template <typename T> static Run of() { return lanes([](T x, T y, T z) -> T { return F::f(x, y, z); }); }
  template <typename S, typename P> static Run of2() {
    return lanes([](P x, P y, P z) -> P { return both<S, P>([](S p, S q, S r) -> S { return F::f(p, q, r); }, x, y, z); });
  }
};

template <typename F, size_t n>
Run for_float(Builder& b, Type type) {
  switch (type) {
    case Type::f32: return Spread<F, n>::template of<float>();
    case Type::f64: return Spread<F, n>::template of<double>();
    case Type::f16: return Spread<F, n>::template of<Half>();
    case Type::bf16: return Spread<F, n>::template of<Brain>();
    case Type::f16x2: return Spread<F, n>::template of2<Half, Half2>();
    case Type::bf16x2: return Spread<F, n>::template of2<Brain, Brain2>();
    default: b.reject("not for this type");
  }
}

template <typename T>
T relu_of(T x) {
  if constexpr (is_small<T>) return nan_in(x) ? no_number<T>() : minus_sign(x) ? T{0} : x;
  else return is_nan(x) ? passed(x) : x > 0 ? x : T{0};
}
template <typename T>
T saturate_any(T x) {
  if constexpr (is_small<T>) return small<T>(saturated(float_of(x)));
  else return static_cast<T>(saturated(static_cast<float>(x)));
}

bool flushes(Type type) { return type == Type::f32 || type == Type::f16 || type == Type::f16x2; }

enum class Kind { add, sub, mul, fma };

template <Kind kind, typename T, typename... R>
[[gnu::always_inline]] inline T compute(T a, T b, R... rest) {
  if constexpr (kind == Kind::add) return plus(a, b);
  else if constexpr (kind == Kind::sub) return minus(a, b);
  else if constexpr (kind == Kind::mul) return times(a, b);
  else return fused(a, b, rest...);
}
template <Kind kind> struct Plain { template <typename... T> static auto f(T... x) { return compute<kind>(x...); } };
template <Kind kind> struct Saturated { template <typename... T> static auto f(T... x) { return saturate_any(compute<kind>(x...)); } };
template <Kind kind> struct Relu { template <typename... T> static auto f(T... x) { return relu_of(compute<kind>(x...)); } };
template <typename T>
constexpr bool can_flush = std::is_same_v<T, float> || std::is_same_v<T, Half>;
template <Kind kind> struct Flushed {
  template <typename... T> static auto f(T... x) {
    if constexpr ((can_flush<T> && ...)) return flush(compute<kind>(flush(x)...));
    else return compute<kind>(x...);
  }
};
template <Kind kind> struct FlushedSaturated {
  template <typename... T> static auto f(T... x) {
    if constexpr ((can_flush<T> && ...)) return saturate_any(flush(compute<kind>(flush(x)...)));
    else return saturate_any(compute<kind>(x...));
  }
};

// Directed roundings: rare, so the direction is looked up per lane.
template <Kind kind, Round round, bool ftz>
struct Directed {
  template <typename T, typename... R>
  static T f(T a, T b, R... rest) {
    if constexpr (is_small<T>) {
      return compute<kind>(a, b, rest...);
    } else {
      if constexpr (ftz && std::is_same_v<T, float>) return flush(exact(flush(a), flush(b), flush(rest)...));
      else return exact(a, b, rest...);
    }
  }
  template <typename T, typename... R>
  static T exact(T a, T b, R... rest) {
    if constexpr (kind == Kind::add) return settle(add_rounded(a, b, round), a, b);
    else if constexpr (kind == Kind::sub) return settle(add_rounded(a, -b, round), a, b);
    else if constexpr (kind == Kind::mul) return settle(mul_rounded(a, b, round), a, b);
    else return settle(fma_rounded(a, b, rest..., round), a, rest..., b);
  }
};
template <Kind kind, Round round> struct DirectedSaturated {
  template <typename... T> static auto f(T... x) { return saturate_any(Directed<kind, round, false>::f(x...)); }
};

template <Kind kind, Round round, size_t n>
Run directed(Builder& b, Type type, const Modes& modes) {
  if (type != Type::f32 && type != Type::f64) b.reject("this rounding is not for this type");
  if (modes.saturate) return for_float<DirectedSaturated<kind, round>, n>(b, type);
  return modes.ftz ? for_float<Directed<kind, round, true>, n>(b, type) : for_float<Directed<kind, round, false>, n>(b, type);
}

template <Kind kind, size_t n>
Run arithmetic(Builder& b, Type type, const Modes& modes) {
  if (modes.ftz && !flushes(type)) b.reject(".ftz is not for this type");
  if (modes.saturate && (bytes_of(type) == 8 || type == Type::f16x2 || type == Type::bf16x2) && type != Type::f16x2)
    b.reject(".sat is not for this type");
  switch (modes.round) {
    case Round::zero: return directed<kind, Round::zero, n>(b, type, modes);
    case Round::down: return directed<kind, Round::down, n>(b, type, modes);
    case Round::up: return directed<kind, Round::up, n>(b, type, modes);
    default: break;
  }
  if (modes.relu) return for_float<Relu<kind>, n>(b, type);
  if (modes.ftz && modes.saturate) return for_float<FlushedSaturated<kind>, n>(b, type);
  if (modes.ftz) return for_float<Flushed<kind>, n>(b, type);
  if (modes.saturate) return for_float<Saturated<kind>, n>(b, type);
  return for_float<Plain<kind>, n>(b, type);
}

void add_or_sub(Builder& b, bool subtract) {
  if (b.take("cc")) return add_with_carry(b, subtract, false, true);
  const Modes modes = take_modes(b);
  const Type type = b.take_type();
  if (!ptx::is_float(type)) {
    if (modes.saturate) {
      if (type != Type::s32) b.reject("only .s32 saturates");
      return add_saturated(b, subtract);
    }
    return add_integer(b, type, subtract);
  }
  apply(b, subtract ? arithmetic<Kind::sub, 2>(b, type, modes) : arithmetic<Kind::add, 2>(b, type, modes), type, {type, type});
}

void add(Builder& b) { add_or_sub(b, false); }
void sub(Builder& b) { add_or_sub(b, true); }

void mul(Builder& b) {
  if (b.peek() == "lo" || b.peek() == "hi" || b.peek() == "wide") return multiply_integer(b);
  const Modes modes = take_modes(b);
  const Type type = b.take_type();
  apply(b, arithmetic<Kind::mul, 2>(b, type, modes), type, {type, type});
}

void fma(Builder& b) {
  if (b.peek() == "lo" || b.peek() == "hi" || b.peek() == "wide") return multiply_add_integer(b);
  const Modes modes = take_modes(b);
  const Type type = b.take_type();
  apply(b, arithmetic<Kind::fma, 3>(b, type, modes), type, {type, type, type});
}

struct Absolute {
  template <typename T> static T f(T x) {
    if (nan_in(x)) return passed(x);
    if constexpr (is_small<T>) return T{static_cast<uint16_t>(x.bits & 0x7fff)};
    else return std::abs(x);
  }
};
struct Negative {
  template <typename T> static T f(T x) {
    if (nan_in(x)) return passed(x);
    if constexpr (is_small<T>) return T{static_cast<uint16_t>(x.bits ^ 0x8000)};
    else return -x;
  }
};
template <bool largest, bool strict> struct Extreme {
  template <typename T> static T f(T a, T b) { return extreme<T, largest, strict>(a, b); }
};
template <bool largest, bool strict> struct FlushedExtreme {
  template <typename T> static T f(T a, T b) {
    if constexpr (can_flush<T>) return extreme<T, largest, strict>(flush(a), flush(b));
    else return extreme<T, largest, strict>(a, b);
  }
};
// Of absolute values, with the product's sign.
template <bool largest, bool strict, bool ftz> struct Xorsign {
  template <typename T> static T f(T a, T b) {
    const bool minus = minus_sign(a) != minus_sign(b);
    T x = Absolute::f(a), y = Absolute::f(b);
    if constexpr (ftz && can_flush<T>) x = flush(x), y = flush(y);
    const T found = extreme<T, largest, strict>(x, y);
    return minus ? Negative::f(found) : found;  // what is no number has no sign
  }
};

template <bool largest, bool strict>
Run extreme_of(Builder& b, Type type, bool ftz, bool xorsign) {
  if (xorsign)
    return ftz ? for_float<Xorsign<largest, strict, true>, 2>(b, type) : for_float<Xorsign<largest, strict, false>, 2>(b, type);
  return ftz ? for_float<FlushedExtreme<largest, strict>, 2>(b, type) : for_float<Extreme<largest, strict>, 2>(b, type);
}

template <bool largest>
void min_max(Builder& b) {
  const bool ftz = b.take("ftz"), strict = b.take("NaN"), xorsign = b.take("xorsign");
  if (xorsign && !b.take("abs")) b.reject("expected .abs");
  if (b.take("relu")) {
    if (b.take_type() != Type::s32) b.reject("not for this type");
    return extreme_integer(b, Type::s32, largest, true);
  }
  const Type type = b.take_type();
  if (!ptx::is_float(type)) return extreme_integer(b, type, largest, false);
  if (ftz && !flushes(type)) b.reject(".ftz is not for this type");
  if (xorsign && type == Type::f64) b.reject("not for this type");
  apply(b, strict ? extreme_of<largest, true>(b, type, ftz, xorsign) : extreme_of<largest, false>(b, type, ftz, xorsign),
        type, {type, type});
}

template <typename F> struct FlushedSign {
  template <typename T> static T f(T x) {
    if constexpr (can_flush<T>) return F::f(flush(x));
    else return F::f(x);
  }
};

template <typename F>
void sign(Builder& b, void (*integer)(Builder&, Type)) {
  const bool ftz = b.take("ftz");
  const Type type = b.take_type();
  if (!ptx::is_float(type)) return integer(b, type);
  if (ftz && !flushes(type)) b.reject(".ftz is not for this type");
  apply(b, ftz ? for_float<FlushedSign<F>, 1>(b, type) : for_float<F, 1>(b, type), type, {type});
}
void abs(Builder& b) { sign<Absolute>(b, absolute_integer); }
void neg(Builder& b) { sign<Negative>(b, negate_integer); }

void copysign(Builder& b) {
  const Type type = b.take_type();
  if (type != Type::f32 && type != Type::f64) b.reject("not for this type");
  apply(b, type == Type::f32 ? lanes([](uint32_t s, uint32_t x) { return (s & 0x80000000u) | (x & 0x7fffffffu); })
                             : lanes([](uint64_t s, uint64_t x) { return (s & (1ull << 63)) | (x & ~(1ull << 63)); }),
        type, {type, type});
}

const Instructions known{{"add", add}, {"sub", sub}, {"mul", mul}, {"fma", fma}, {"min", min_max<false>},
                         {"max", min_max<true>}, {"abs", abs}, {"neg", neg}, {"copysign", copysign}};

}  // namespace

void multiply_add(Builder& b) {
  if (b.peek() == "lo" || b.peek() == "hi" || b.peek() == "wide") {
    return multiply_add_integer(b);
  }
  fma(b);
}

}  // namespace sim::exec
