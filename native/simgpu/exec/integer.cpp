// Integer arithmetic.
#include <algorithm>

#include "exec/apply.h"
#include "exec/integer.h"

namespace sim::exec {

bool has_wide() {
#if defined(__x86_64__)
  static const bool yes = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                          __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
  return yes;
#else
  return false;
#endif
}

namespace {

template <typename T>
using Wide = std::conditional_t<sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>,
                                std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>,
                                                   std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>>>;
template <typename T>
using Bits = std::make_unsigned_t<T>;

template <typename T>
T product(T a, T b) {  // the low half, without overflow
  return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
template <typename T>
T high(T a, T b) {
  return static_cast<T>((static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b)) >> (sizeof(T) * 8));
}
template <typename T>
T quotient(T a, T b) {  // division by zero gives all ones, as the hardware's routine does, for the remainder too
  if (b == 0) return static_cast<T>(-1);
  if constexpr (std::is_signed_v<T>)
    if (b == -1) return static_cast<T>(-static_cast<Bits<T>>(a));
  return static_cast<T>(a / b);
}
template <typename T>
T remainder_of(T a, T b) {
  if (b == 0) return static_cast<T>(-1);
  if constexpr (std::is_signed_v<T>)
    if (b == -1) return 0;
  return static_cast<T>(a % b);
}
template <typename T>
T sum(T a, T b) {
  return static_cast<T>(static_cast<Bits<T>>(a) + static_cast<Bits<T>>(b));
}
template <typename T>
T difference(T a, T b) {
  return static_cast<T>(static_cast<Bits<T>>(a) - static_cast<Bits<T>>(b));
}
inline int32_t clamp32(int64_t value) {
  return static_cast<int32_t>(std::clamp<int64_t>(value, INT32_MIN, INT32_MAX));
}

Type twice(Builder& b, Type type) {
  switch (type) {
    case Type::u16: return Type::u32;
    case Type::s16: return Type::s32;
    case Type::u32: return Type::u64;
    case Type::s32: return Type::s64;
    default: b.reject("not for this type");
  }
}

Run halves(Type type, Run unsigned_run, Run signed_run) { return type == Type::s16x2 ? signed_run : unsigned_run; }

template <typename T, typename F>
uint32_t pairwise(uint32_t a, uint32_t b, F f) {
  const T low = f(static_cast<T>(a), static_cast<T>(b)), top = f(static_cast<T>(a >> 16), static_cast<T>(b >> 16));
  return static_cast<uint16_t>(low) | static_cast<uint32_t>(static_cast<uint16_t>(top)) << 16;
}

bool packed(Type type) { return type == Type::u16x2 || type == Type::s16x2; }

}  // namespace

void add_integer(Builder& b, Type type, bool subtract) {
  if (packed(type)) {
    apply(b, subtract ? lanes([](uint32_t x, uint32_t y) { return pairwise<uint16_t>(x, y, [](auto p, auto q) { return p - q; }); })
                      : lanes([](uint32_t x, uint32_t y) { return pairwise<uint16_t>(x, y, [](auto p, auto q) { return p + q; }); }),
          type, {type, type});
    return;
  }
  apply(b, for_integer(b, type, [&]<typename T>(T) {
          return subtract ? lanes([](T x, T y) { return difference(x, y); }) : lanes([](T x, T y) { return sum(x, y); });
        }), type, {type, type});
}

void add_saturated(Builder& b, bool subtract) {
  apply(b, subtract ? lanes([](int32_t x, int32_t y) { return clamp32(int64_t{x} - y); })
                    : lanes([](int32_t x, int32_t y) { return clamp32(int64_t{x} + y); }),
        Type::s32, {Type::s32, Type::s32});
}

void multiply_integer(Builder& b) {
  if (b.take("wide")) {
    const Type type = b.take_type();
    apply(b, for_integer(b, type, []<typename T>(T) -> Run {
            if constexpr (sizeof(T) == 8) return nullptr;
            else return lanes([](T x, T y) { return static_cast<Wide<T>>(x) * static_cast<Wide<T>>(y); });
          }), twice(b, type), {type, type});
    return;
  }
  const bool upper = b.take("hi");
  if (!upper && !b.take("lo")) b.reject("expected .lo, .hi or .wide");
  const Type type = b.take_type();
  apply(b, for_integer(b, type, [&]<typename T>(T) {
          return upper ? lanes([](T x, T y) { return high(x, y); }) : lanes([](T x, T y) { return product(x, y); });
        }), type, {type, type});
}

void multiply_add_integer(Builder& b) {
  if (b.take("wide")) {
    const Type type = b.take_type(), large = twice(b, type);
    apply(b, for_integer(b, type, []<typename T>(T) -> Run {
            if constexpr (sizeof(T) == 8) return nullptr;
            else return lanes([](T x, T y, Wide<T> z) { return sum<Wide<T>>(static_cast<Wide<T>>(x) * static_cast<Wide<T>>(y), z); });
          }), large, {type, type, large});
    return;
  }
  const bool upper = b.take("hi");
  if (!upper && !b.take("lo")) b.reject("expected .lo, .hi or .wide");
  if (b.take("sat")) {
    if (!upper) b.reject("only .hi saturates");
    const Type type = b.take_type();
    if (type != Type::s32) b.reject("only .s32 saturates");
    apply(b, lanes([](int32_t x, int32_t y, int32_t z) { return clamp32(int64_t{high(x, y)} + z); }), type, {type, type, type});
    return;
  }
  const Type type = b.take_type();
  apply(b, for_integer(b, type, [&]<typename T>(T) {
          return upper ? lanes([](T x, T y, T z) { return sum(high(x, y), z); })
                       : lanes([](T x, T y, T z) { return sum(product(x, y), z); });
        }), type, {type, type, type});
}

void divide_integer(Builder& b, Type type, bool rest) {
  apply(b, for_integer(b, type, [&]<typename T>(T) {
          return rest ? lanes([](T x, T y) { return remainder_of(x, y); }) : lanes([](T x, T y) { return quotient(x, y); });
        }), type, {type, type});
}

void extreme_integer(Builder& b, Type type, bool largest, bool relu) {
  if (packed(type)) {
    apply(b, halves(type,
                    largest ? lanes([](uint32_t x, uint32_t y) { return pairwise<uint16_t>(x, y, [](auto p, auto q) { return std::max(p, q); }); })
                            : lanes([](uint32_t x, uint32_t y) { return pairwise<uint16_t>(x, y, [](auto p, auto q) { return std::min(p, q); }); }),
                    largest ? lanes([](uint32_t x, uint32_t y) { return pairwise<int16_t>(x, y, [](auto p, auto q) { return std::max(p, q); }); })
                            : lanes([](uint32_t x, uint32_t y) { return pairwise<int16_t>(x, y, [](auto p, auto q) { return std::min(p, q); }); })),
          type, {type, type});
    return;
  }
  if (relu) {
    if (type != Type::s32) b.reject("not for this type");
    apply(b, largest ? lanes([](int32_t x, int32_t y) { return std::max(0, std::max(x, y)); })
                     : lanes([](int32_t x, int32_t y) { return std::max(0, std::min(x, y)); }), type, {type, type});
    return;
  }
  apply(b, for_integer(b, type, [&]<typename T>(T) {
          return largest ? lanes([](T x, T y) { return std::max(x, y); }) : lanes([](T x, T y) { return std::min(x, y); });
        }), type, {type, type});
}

void absolute_integer(Builder& b, Type type) {
  if (!ptx::is_signed(type)) b.reject("not for this type");
  apply(b, for_integer(b, type, []<typename T>(T) { return lanes([](T x) { return x < 0 ? difference(T{}, x) : x; }); }), type, {type});
}

void negate_integer(Builder& b, Type type) {
  if (!ptx::is_signed(type)) b.reject("not for this type");
  apply(b, for_integer(b, type, []<typename T>(T) { return lanes([](T x) { return difference(T{}, x); }); }), type, {type});
}

namespace {

int64_t signed24(int32_t x) { return static_cast<int32_t>(static_cast<uint32_t>(x) << 8) >> 8; }
uint64_t unsigned24(uint32_t x) { return x & 0xffffffu; }

void mul24(Builder& b) {
  const bool upper = b.take("hi");
  if (!upper && !b.take("lo")) b.reject("expected .lo or .hi");
  const Type type = b.take_type();
  if (type == Type::u32) {
    apply(b, upper ? lanes([](uint32_t x, uint32_t y) { return static_cast<uint32_t>(unsigned24(x) * unsigned24(y) >> 16); })
                   : lanes([](uint32_t x, uint32_t y) { return static_cast<uint32_t>(unsigned24(x) * unsigned24(y)); }),
          type, {type, type});
  } else if (type == Type::s32) {
    apply(b, upper ? lanes([](int32_t x, int32_t y) { return static_cast<int32_t>(signed24(x) * signed24(y) >> 16); })
                   : lanes([](int32_t x, int32_t y) { return static_cast<int32_t>(signed24(x) * signed24(y)); }),
          type, {type, type});
  } else {
    b.reject("not for this type");
  }
}

void mad24(Builder& b) {
  const bool upper = b.take("hi");
  if (!upper && !b.take("lo")) b.reject("expected .lo or .hi");
  const bool saturate = upper && b.take("sat");
  const Type type = b.take_type();
  if (saturate && type != Type::s32) b.reject("only .s32 saturates");
  if (type == Type::u32) {
    apply(b, upper ? lanes([](uint32_t x, uint32_t y, uint32_t z) { return static_cast<uint32_t>(unsigned24(x) * unsigned24(y) >> 16) + z; })
                   : lanes([](uint32_t x, uint32_t y, uint32_t z) { return static_cast<uint32_t>(unsigned24(x) * unsigned24(y)) + z; }),
          type, {type, type, type});
  } else if (type == Type::s32) {
    apply(b, saturate ? lanes([](int32_t x, int32_t y, int32_t z) { return clamp32(int64_t{static_cast<int32_t>(signed24(x) * signed24(y) >> 16)} + z); })
             : upper ? lanes([](int32_t x, int32_t y, int32_t z) { return sum(static_cast<int32_t>(signed24(x) * signed24(y) >> 16), z); })
                     : lanes([](int32_t x, int32_t y, int32_t z) { return sum(static_cast<int32_t>(signed24(x) * signed24(y)), z); }),
          type, {type, type, type});
  } else {
    b.reject("not for this type");
  }
}

void sad(Builder& b) {
  const Type type = b.take_type();
  apply(b, for_integer(b, type, []<typename T>(T) {
          return lanes([](T x, T y, Bits<T> z) {
            return static_cast<Bits<T>>(z + (x < y ? static_cast<Bits<T>>(y) - static_cast<Bits<T>>(x)
                                                   : static_cast<Bits<T>>(x) - static_cast<Bits<T>>(y)));
          });
        }), type, {type, type, type});
}

template <typename X, typename Y>
uint32_t dot4(uint32_t a, uint32_t b, uint32_t c) {
  for (unsigned i = 0; i < 32; i += 8)
    c += static_cast<uint32_t>(static_cast<X>(a >> i) * static_cast<Y>(b >> i));
  return c;
}

void dp4a(Builder& b) {
  const Type x = b.take_type(), y = b.take_type();
  if (bytes_of(x) != 4 || bytes_of(y) != 4 || ptx::is_float(x) || ptx::is_float(y)) b.reject("not for this type");
  const bool p = ptx::is_signed(x), q = ptx::is_signed(y);
  apply(b, p ? q ? lanes([](uint32_t u, uint32_t v, uint32_t w) { return dot4<int8_t, int8_t>(u, v, w); })
                 : lanes([](uint32_t u, uint32_t v, uint32_t w) { return dot4<int8_t, uint8_t>(u, v, w); })
             : q ? lanes([](uint32_t u, uint32_t v, uint32_t w) { return dot4<uint8_t, int8_t>(u, v, w); })
                 : lanes([](uint32_t u, uint32_t v, uint32_t w) { return dot4<uint8_t, uint8_t>(u, v, w); }),
        Type::b32, {x, y, Type::b32});
}

template <typename X, typename Y, int shift>
uint32_t dot2(uint32_t a, uint32_t b, uint32_t c) {
  c += static_cast<uint32_t>(int64_t{static_cast<X>(a)} * static_cast<Y>(b >> shift));
  return c + static_cast<uint32_t>(int64_t{static_cast<X>(a >> 16)} * static_cast<Y>(b >> (shift + 8)));
}

template <int shift>
Run pick_dot2(bool p, bool q) {
  return p ? q ? lanes([](uint32_t u, uint32_t v, uint32_t w) { return dot2<int16_t, int8_t, shift>(u, v, w); })
               : lanes([](uint32_t u, uint32_t v, uint32_t w) { return dot2<int16_t, uint8_t, shift>(u, v, w); })
           : q ? lanes([](uint32_t u, uint32_t v, uint32_t w) { return dot2<uint16_t, int8_t, shift>(u, v, w); })
               : lanes([](uint32_t u, uint32_t v, uint32_t w) { return dot2<uint16_t, uint8_t, shift>(u, v, w); });
}

void dp2a(Builder& b) {
  const bool upper = b.take("hi");
  if (!upper && !b.take("lo")) b.reject("expected .lo or .hi");
  const Type x = b.take_type(), y = b.take_type();
  if (bytes_of(x) != 4 || bytes_of(y) != 4) b.reject("not for this type");
  apply(b, upper ? pick_dot2<16>(ptx::is_signed(x), ptx::is_signed(y)) : pick_dot2<0>(ptx::is_signed(x), ptx::is_signed(y)),
        Type::b32, {x, y, Type::b32});
}

const Instructions known{{"sad", sad}, {"dp4a", dp4a}, {"dp2a", dp2a}, {"mul24", mul24}, {"mad24", mad24}};

}  // namespace
}  // namespace sim::exec
