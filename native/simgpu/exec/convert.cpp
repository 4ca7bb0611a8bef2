// cvt: between all types, with all roundings.
#include <cmath>

#include "exec/apply.h"
#include "exec/float_math.h"

namespace sim::exec {
namespace {

enum Flag : uint8_t { kFlush = 1, kSaturate = 2, kRelu = 4, kIntegral = 8, kSourceWide = 16, kResultWide = 32 };

// Saturated conversion of a value that is integral already. What is no number becomes 0, or the sign bit alone when
// one of the two types has 64 bits.
template <typename D, typename S>
D integer_from(double x) {
  if (is_nan(x)) {
    if (sizeof(S) == 8 || sizeof(D) == 8) return static_cast<D>(std::make_unsigned_t<D>{1} << (sizeof(D) * 8 - 1));
    return 0;
  }
  const double low = static_cast<double>(std::numeric_limits<D>::min());
  const double high = std::ldexp(1.0, std::numeric_limits<D>::digits);
  if (x < low) return std::numeric_limits<D>::min();
  if (x >= high) return std::numeric_limits<D>::max();
  return static_cast<D>(x);
}

// An integer as float: a double of the integer rounded to odd, so that one rounding remains.
template <typename S>
double marked_double(S x) {
  const double nearest = static_cast<double>(x);
  if constexpr (sizeof(S) < 8) return nearest;
  else return mark(nearest, static_cast<double>(static_cast<__int128>(x) - static_cast<__int128>(nearest)));
}

template <typename S>
double double_of_integer(S x, Round round) {
  const double nearest = static_cast<double>(x);
  const __int128 error = static_cast<__int128>(x) - static_cast<__int128>(nearest);
  if (error == 0 || round == Round::nearest) return nearest;
  const bool toward_zero = round == Round::zero || (round == Round::down) == (x >= 0);
  const uint64_t bits = std::bit_cast<uint64_t>(nearest);
  const bool larger = (error < 0) == (x >= 0);  // nearest lies further from zero than x
  if (toward_zero) return larger ? std::bit_cast<double>(bits - 1) : nearest;
  return larger ? nearest : std::bit_cast<double>(bits + 1);
}

template <typename T>
T float_from(double x, Round round) {
  if constexpr (std::is_same_v<T, Half>) return half_from(x, round);
  else if constexpr (std::is_same_v<T, Brain>) return brain_from(x, round);
  else if constexpr (std::is_same_v<T, float>) return canonical(narrow(x, round));
  else return quieted(x);
}

// f64 that is no number in a smaller format: its sign and the upper bits of its payload.
template <typename D>
D shortened(double x) {
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  if constexpr (std::is_same_v<D, Half>)
    return {static_cast<uint16_t>((bits >> 48 & 0x8000) | 0x7e00 | (bits >> 42 & 0x3ff))};
  else if constexpr (std::is_same_v<D, float>)
    return std::bit_cast<float>(static_cast<uint32_t>(bits >> 32 & 0x80000000u) | 0x7fc00000u | static_cast<uint32_t>(bits >> 29 & 0x7fffff));
  else return brain_from(x);
}

template <typename T>
inline constexpr bool is_real = is_small<T> || std::is_floating_point_v<T>;

template <typename D, typename S>
D convert_one(S x, Round round, uint8_t flags) {
  if constexpr (!is_real<S> && !is_real<D>) {
    if (flags & kSaturate) {
      const __int128 value = x;
      if (value < static_cast<__int128>(std::numeric_limits<D>::min())) return std::numeric_limits<D>::min();
      if (value > static_cast<__int128>(std::numeric_limits<D>::max())) return std::numeric_limits<D>::max();
    }
    return static_cast<D>(x);
  } else if constexpr (!is_real<S>) {
    if constexpr (std::is_same_v<D, double>) return double_of_integer(x, round);
    else {
      D result = float_from<D>(marked_double(x), round);
      if (flags & kSaturate) {
        if constexpr (is_small<D>) result = small<D>(saturated(float_of(result)));
        else result = saturated(result);
      }
      return result;
    }
  } else {
    double value;
    if constexpr (std::is_same_v<S, Brain> && std::is_same_v<D, float>) return float_of(x);  // a shift, whatever it is
    if constexpr (is_small<S>) value = float_of(x);
    else if constexpr (std::is_same_v<S, float>) value = flags & kFlush ? canonical(flush(x)) : x;
    else value = x;
    if constexpr (!is_real<D>) {
      return integer_from<D, S>(to_integral(value, round));
    } else {
      if (flags & kIntegral) value = to_integral(value, round);
      if ((flags & kSaturate)) value = is_nan(value) || value < 0 || (value == 0) ? 0.0 : value > 1 ? 1.0 : value;
      if ((flags & kRelu) && !is_nan(value) && std::signbit(value)) value = 0;
      if constexpr (std::is_same_v<S, double> && !std::is_same_v<D, double>)
        if (is_nan(value)) return shortened<D>(value);
      if constexpr (std::is_same_v<S, double> && std::is_same_v<D, float>)  // seen before it is rounded
        if ((flags & kFlush) && std::abs(value) < std::numeric_limits<float>::min()) value = std::copysign(0.0, value);
      D result = float_from<D>(value, flags & kIntegral ? Round::nearest : round);
      if constexpr (std::is_same_v<D, float>)
        if (flags & kFlush) result = flush(result);
      return result;
    }
  }
}

template <typename D, typename S>
void convert(Warp& w, const Op& op) {
  const auto round = static_cast<Round>(op.mode);
  const uint8_t flags = op.size;
  for (unsigned i = 0; i < kLanes; ++i) {
    if (!(w.mask >> i & 1)) continue;
    const uint64_t bits = flags & kSourceWide ? w.in<uint64_t>(op.a)[i] : w.in<uint32_t>(op.a)[i];
    const D result = convert_one<D, S>(unpack<S>(static_cast<Stored<S>>(bits)), round, flags);
    uint64_t out;
    if constexpr (std::is_integral_v<D> && std::is_signed_v<D>) out = static_cast<uint64_t>(static_cast<int64_t>(result));
    else out = pack<D>(result);
    if (flags & kResultWide) w.out<uint64_t>(op.d)[i] = out;
    else if constexpr (sizeof(D) == 2 && std::is_integral_v<D>) w.out<uint32_t>(op.d)[i] = static_cast<uint32_t>(out);
    else w.out<uint32_t>(op.d)[i] = static_cast<uint32_t>(out);
  }
}

template <typename G>
Run for_any(Builder& b, Type type, G make) {
  switch (type) {
    case Type::u8: case Type::b8: return make(uint8_t{});
    case Type::s8: return make(int8_t{});
    case Type::f16: return make(Half{});
    case Type::bf16: return make(Brain{});
    case Type::f32: return make(float{});
    case Type::f64: return make(double{});
    default: return for_integer(b, type, make);
  }
}

// What programs do all the time, for whole warps at once.
Run common(Type to, Type from, Round round, uint8_t flags) {
  const bool plain = flags == 0;
  if (from == Type::s32 && to == Type::s64 && flags == kResultWide) return lanes([](int32_t x) { return int64_t{x}; });
  if (from == Type::u32 && bytes_of(to) == 8 && !is_float(to) && flags == kResultWide) return lanes([](uint32_t x) { return uint64_t{x}; });
  if (bytes_of(from) == 8 && bytes_of(to) == 4 && !is_float(from) && !is_float(to) && flags == kSourceWide)
    return lanes([](uint64_t x) { return static_cast<uint32_t>(x); });
  if (from == Type::s32 && to == Type::f32 && plain && round == Round::nearest) return lanes([](int32_t x) { return static_cast<float>(x); });
  if (from == Type::f32 && to == Type::f64 && flags == kResultWide) return lanes([](float x) { return quieted(static_cast<double>(x)); });
  if (from == Type::f64 && to == Type::f32 && flags == kSourceWide && round == Round::nearest) return lanes([](double x) { return is_nan(x) ? shortened<float>(x) : static_cast<float>(x); });
  if (from == Type::f16 && to == Type::f32 && plain) return lanes([](Half x) { return canonical(float_of(x)); });
  return nullptr;
}

// cvt.f16x2.f32 d, a, b: a goes to the upper half.
template <typename S>
void pack_two(Warp& w, const Op& op) {
  for (unsigned i = 0; i < kLanes; ++i) {
    if (!(w.mask >> i & 1)) continue;
    const auto round = static_cast<Round>(op.mode);
    const uint32_t high = convert_one<S, float>(unpack<float>(w.in<uint32_t>(op.a)[i]), round, op.size).bits;
    const uint32_t low = convert_one<S, float>(unpack<float>(w.in<uint32_t>(op.b)[i]), round, op.size).bits;
    w.out<uint32_t>(op.d)[i] = high << 16 | low;
  }
}

void cvt(Builder& b) {
  Op op;
  Round round = Round::nearest;
  bool directed = false, nearest_away = false;
  for (;;) {
    bool found = true;
    if (b.take("rn")) round = Round::nearest, directed = true;
    else if (b.take("rz")) round = Round::zero, directed = true;
    else if (b.take("rm")) round = Round::down, directed = true;
    else if (b.take("rp")) round = Round::up, directed = true;
    else if (b.take("rna")) nearest_away = true;
    else if (b.take("rni")) round = Round::nearest, op.size |= kIntegral;
    else if (b.take("rzi")) round = Round::zero, op.size |= kIntegral;
    else if (b.take("rmi")) round = Round::down, op.size |= kIntegral;
    else if (b.take("rpi")) round = Round::up, op.size |= kIntegral;
    else if (b.take("ftz")) op.size |= kFlush;
    else if (b.take("sat")) op.size |= kSaturate;
    else if (b.take("relu")) op.size |= kRelu;
    else found = false;
    if (!found) break;
  }
  const Type to = b.take_type(), from = b.take_type();
  op.mode = static_cast<uint8_t>(round);
  if (to == Type::tf32 && from == Type::f32 && (nearest_away || round == Round::nearest)) {
    if (nearest_away)
      apply(b, lanes([](uint32_t x) { return (x & 0x7f800000u) == 0x7f800000u ? x & 0xffffe000u : (x + 0x1000u) & 0xffffe000u; }), Type::b32, {Type::b32});
    else
      apply(b, lanes([](uint32_t x) { return (x & 0x7f800000u) == 0x7f800000u ? x & 0xffffe000u : (x + 0xfffu + (x >> 13 & 1)) & 0xffffe000u; }), Type::b32, {Type::b32});
    return;
  }
  if (nearest_away) b.reject("this rounding is for .tf32 only");
  if ((to == Type::f16x2 || to == Type::bf16x2) && from == Type::f32) {
    Op& two = apply(b, to == Type::f16x2 ? &pack_two<Half> : &pack_two<Brain>, to, {from, from});
    two.mode = op.mode;
    two.size = op.size;
    return;
  }
  b.expect_operands(2, 2);
  if (is_float(from) && !is_float(to) && !(op.size & kIntegral)) b.reject("a rounding to an integer is needed");
  if (!is_float(from) && is_float(to) && !directed) b.reject("a rounding is needed");
  bool source_wide = false, result_wide = false;
  op.a = b.read_wider(b.operand(1), from, source_wide);
  op.d = b.write_wider(b.operand(0), to, result_wide);
  if (is_float(to) && result_wide != (bytes_of(to) == 8)) b.reject("the register has another size");
  op.size |= (source_wide ? kSourceWide : 0) | (result_wide ? kResultWide : 0);
  op.run = common(to, from, round, op.size);
  if (!op.run)
    op.run = for_any(b, to, [&]<typename D>(D) {
      return for_any(b, from, []<typename S>(S) -> Run { return &convert<D, S>; });
    });
  b.add(op);
}

const Instructions known{{"cvt", cvt}};

}  // namespace
}  // namespace sim::exec
