// Logic, shifts and bit fields.
#include <bit>

#include "exec/apply.h"

namespace sim::exec {
namespace {

enum class Logic { conjunction, disjunction, exclusive };

template <Logic kind, typename T>
T combine(T x, T y) {
  if constexpr (kind == Logic::conjunction) return x & y;
  else if constexpr (kind == Logic::disjunction) return x | y;
  else return x ^ y;
}

template <Logic kind>
void logic(Builder& b) {
  const Type type = b.take_type();
  if (type == Type::pred) {
    apply(b, [](Warp& w, const Op& op) { w.set_predicate(op.d, combine<kind>(w.predicate(op.a), w.predicate(op.b))); },
          type, {type, type});
    return;
  }
  apply(b, for_bits(b, type, []<typename T>(T) { return lanes([](T x, T y) -> T { return combine<kind>(x, y); }); }), type,
        {type, type});
}

void negation(Builder& b) {
  const Type type = b.take_type();
  if (type == Type::pred) {
    apply(b, [](Warp& w, const Op& op) { w.set_predicate(op.d, ~w.predicate(op.a)); }, type, {type});
    return;
  }
  apply(b, for_bits(b, type, []<typename T>(T) { return lanes([](T x) -> T { return ~x; }); }), type, {type});
}

void cnot(Builder& b) {
  const Type type = b.take_type();
  apply(b, for_bits(b, type, []<typename T>(T) { return lanes([](T x) -> T { return x == 0; }); }), type, {type});
}

void shl(Builder& b) {
  const Type type = b.take_type();
  apply(b, for_bits(b, type, []<typename T>(T) {
          return lanes([](T x, uint32_t n) -> T { return n < sizeof(T) * 8 ? static_cast<T>(x << (n & 63)) : T{0}; });
        }), type, {type, Type::u32});
}

void shr(Builder& b) {
  const Type type = b.take_type();
  apply(b, for_integer(b, type, []<typename T>(T) {
          return lanes([](T x, uint32_t n) -> T {
            constexpr uint32_t most = sizeof(T) * 8 - 1;
            if constexpr (std::is_signed_v<T>) return x >> (n < most ? n : most);
            else return n <= most ? static_cast<T>(x >> (n & most)) : T{0};
          });
        }), type, {type, Type::u32});
}

void shf(Builder& b) {
  const bool left = b.take("l");
  if (!left && !b.take("r")) b.reject("expected .l or .r");
  const bool clamp = b.take("clamp");
  if (!clamp && !b.take("wrap")) b.reject("expected .clamp or .wrap");
  if (!b.take("b32")) b.reject("not for this type");
  constexpr Type t = Type::b32;
  // The low word first, then the high one.
  if (left)
    apply(b, clamp ? lanes([](uint32_t lo, uint32_t hi, uint32_t n) {
                       return static_cast<uint32_t>(((uint64_t{hi} << 32 | lo) << (n < 32 ? n : 32)) >> 32); })
                   : lanes([](uint32_t lo, uint32_t hi, uint32_t n) {
                       return static_cast<uint32_t>(((uint64_t{hi} << 32 | lo) << (n & 31)) >> 32); }), t, {t, t, Type::u32});
  else
    apply(b, clamp ? lanes([](uint32_t lo, uint32_t hi, uint32_t n) {
                       return static_cast<uint32_t>((uint64_t{hi} << 32 | lo) >> (n < 32 ? n : 32)); })
                   : lanes([](uint32_t lo, uint32_t hi, uint32_t n) {
                       return static_cast<uint32_t>((uint64_t{hi} << 32 | lo) >> (n & 31)); }), t, {t, t, Type::u32});
}

// Position and length of a field: one byte each for 32-bit values, the whole operand for 64-bit ones.
template <typename T>
uint64_t field_number(uint32_t x) { return sizeof(T) == 8 ? x : x & 255; }

template <typename T>
T extract(T x, uint64_t from, uint64_t count) {
  using U = std::make_unsigned_t<T>;
  constexpr uint64_t bits = sizeof(T) * 8;
  if (count == 0) return 0;
  const uint64_t have = from >= bits ? 0 : count < bits - from ? count : bits - from;
  const U mask = have < bits ? (U{1} << have) - 1 : ~U{0};
  U field = have ? static_cast<U>(x) >> (from & (bits - 1)) & mask : 0;
  if constexpr (std::is_signed_v<T>) {
    const uint64_t last = from + count - 1 < bits - 1 ? from + count - 1 : bits - 1;
    if (static_cast<U>(x) >> last & 1) field |= ~mask;
  }
  return static_cast<T>(field);
}

void bfe(Builder& b) {
  const Type type = b.take_type();
  if (bytes_of(type) < 4) b.reject("not for this type");
  apply(b, for_integer(b, type, []<typename T>(T) {
          return lanes([](T x, uint32_t start, uint32_t length) -> T {
            return extract(x, field_number<T>(start), field_number<T>(length));
          });
        }), type, {type, Type::u32, Type::u32});
}

void bfi(Builder& b) {
  const Type type = b.take_type();
  if (bytes_of(type) < 4) b.reject("not for this type");
  apply(b, for_bits(b, type, []<typename T>(T) {
          return lanes([](T field, T into, uint32_t start, uint32_t length) -> T {
            constexpr uint64_t bits = sizeof(T) * 8;
            const uint64_t from = field_number<T>(start), count = field_number<T>(length);
            if (from >= bits || count == 0) return into;
            const T mask = (count < bits ? (T{1} << count) - 1 : ~T{0}) << from;
            return (into & ~mask) | ((field << from) & mask);
          });
        }), type, {type, type, Type::u32, Type::u32});
}

void popc(Builder& b) {
  const Type type = b.take_type();
  apply(b, for_bits(b, type, []<typename T>(T) { return lanes([](T x) { return static_cast<uint32_t>(std::popcount(x)); }); }),
        Type::u32, {type});
}

void clz(Builder& b) {
  const Type type = b.take_type();
  apply(b, for_bits(b, type, []<typename T>(T) { return lanes([](T x) { return static_cast<uint32_t>(std::countl_zero(x)); }); }),
        Type::u32, {type});
}

void brev(Builder& b) {
  const Type type = b.take_type();
  apply(b, for_bits(b, type, []<typename T>(T) {
          return lanes([](T x) -> T {
            T out = 0;
            for (unsigned i = 0; i < sizeof(T) * 8; ++i) out |= (x >> i & 1) << (sizeof(T) * 8 - 1 - i);
            return out;
          });
        }), type, {type});
}

template <typename T>
uint32_t find_leading(T x, bool shift) {
  auto bits = static_cast<std::make_unsigned_t<T>>(x);
  if (std::is_signed_v<T> && x < 0) bits = ~bits;
  if (!bits) return UINT32_MAX;
  const auto zeros = static_cast<uint32_t>(std::countl_zero(bits));
  return shift ? zeros : static_cast<uint32_t>(sizeof(T) * 8) - 1 - zeros;
}

void bfind(Builder& b) {
  const bool amount = b.take("shiftamt");
  const Type type = b.take_type();
  if (bytes_of(type) < 4) b.reject("not for this type");
  apply(b, for_integer(b, type, [&]<typename T>(T) {
          return amount ? lanes([](T x) { return find_leading(x, true); }) : lanes([](T x) { return find_leading(x, false); });
        }), Type::u32, {type});
}

uint32_t permute(uint32_t a, uint32_t b, uint32_t selector) {
  const uint64_t bytes = uint64_t{b} << 32 | a;
  uint32_t result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const uint32_t choice = selector >> (4 * i) & 15;
    uint32_t byte = static_cast<uint32_t>(bytes >> (8 * (choice & 7))) & 255;
    if (choice & 8) byte = byte & 128 ? 255 : 0;
    result |= byte << (8 * i);
  }
  return result;
}

// The other forms of prmt choose by the low two bits of the selector.
template <int form>
uint32_t permute_by(uint32_t a, uint32_t b, uint32_t c) {
  static constexpr uint16_t table[6][4] = {
      {0x3210, 0x4321, 0x5432, 0x6543},   // f4e
      {0x5670, 0x6701, 0x7012, 0x0123},   // b4e
      {0x0000, 0x1111, 0x2222, 0x3333},   // rc8
      {0x3210, 0x3211, 0x3222, 0x3333},   // ecl
      {0x0000, 0x1110, 0x2210, 0x3210},   // ecr
      {0x1010, 0x3232, 0x1010, 0x3232}};  // rc16
  return permute(a, b, table[form][c & 3]);
}

void prmt(Builder& b) {
  b.take("b32") ? void() : b.reject("not for this type");
  Run run = lanes([](uint32_t x, uint32_t y, uint32_t s) { return permute(x, y, s); });
  if (b.take("f4e")) run = lanes([](uint32_t x, uint32_t y, uint32_t s) { return permute_by<0>(x, y, s); });
  else if (b.take("b4e")) run = lanes([](uint32_t x, uint32_t y, uint32_t s) { return permute_by<1>(x, y, s); });
  else if (b.take("rc8")) run = lanes([](uint32_t x, uint32_t y, uint32_t s) { return permute_by<2>(x, y, s); });
  else if (b.take("ecl")) run = lanes([](uint32_t x, uint32_t y, uint32_t s) { return permute_by<3>(x, y, s); });
  else if (b.take("ecr")) run = lanes([](uint32_t x, uint32_t y, uint32_t s) { return permute_by<4>(x, y, s); });
  else if (b.take("rc16")) run = lanes([](uint32_t x, uint32_t y, uint32_t s) { return permute_by<5>(x, y, s); });
  apply(b, run, Type::b32, {Type::b32, Type::b32, Type::b32});
}

// Any function of three bits, given by its table of 8 values.
void lop3(Builder& b) {
  if (!b.take("b32")) b.reject("predicates are not supported here");
  b.expect_operands(5, 5);
  if (b.operand(4).kind != Operand::Kind::integer || b.operand(4).value > 255) b.reject("the table must be a number below 256");
  Op op;
  op.run = [](Warp& w, const Op& self) {
    alignas(64) uint32_t result[kLanes] = {};
    const uint32_t *x = w.in<uint32_t>(self.a), *y = w.in<uint32_t>(self.b), *z = w.in<uint32_t>(self.c);
    for (unsigned row = 0; row < 8; ++row) {
      if (!(self.immediate >> row & 1)) continue;
      const uint32_t p = row & 4 ? 0 : kAllLanes, q = row & 2 ? 0 : kAllLanes, r = row & 1 ? 0 : kAllLanes;
      for (unsigned i = 0; i < kLanes; ++i) result[i] |= (x[i] ^ p) & (y[i] ^ q) & (z[i] ^ r);
    }
    store_lanes(w.out<uint32_t>(self.d), result, w.mask);
  };
  op.immediate = static_cast<int64_t>(b.operand(4).value);
  op.a = b.read(b.operand(1), Type::b32);
  op.b = b.read(b.operand(2), Type::b32);
  op.c = b.read(b.operand(3), Type::b32);
  op.d = b.write(b.operand(0), Type::b32);
  b.add(op);
}

uint32_t mask_of(uint32_t from, uint32_t count) {
  if (from > 31 || count == 0) return 0;
  return (count < 32 ? (1u << count) - 1 : UINT32_MAX) << from;
}

void bmsk(Builder& b) {
  const bool clamp = b.take("clamp");
  if (!clamp && !b.take("wrap")) b.reject("expected .clamp or .wrap");
  if (!b.take("b32")) b.reject("not for this type");
  apply(b, clamp ? lanes([](uint32_t x, uint32_t y) { return mask_of(x, y); })
                 : lanes([](uint32_t x, uint32_t y) { return mask_of(x & 31, y & 31); }), Type::b32, {Type::u32, Type::u32});
}

uint32_t extend(uint32_t x, uint32_t n, bool sign) {
  if (n >= 32) return x;
  const uint32_t mask = (1u << n) - 1;
  return sign && n && (x >> (n - 1) & 1) ? x | ~mask : x & mask;
}

void szext(Builder& b) {
  const bool clamp = b.take("clamp");
  if (!clamp && !b.take("wrap")) b.reject("expected .clamp or .wrap");
  const Type type = b.take_type();
  if (type != Type::u32 && type != Type::s32) b.reject("not for this type");
  apply(b, ptx::is_signed(type) ? clamp ? lanes([](uint32_t x, uint32_t n) { return extend(x, n, true); })
                                        : lanes([](uint32_t x, uint32_t n) { return extend(x, n & 31, true); })
                                : clamp ? lanes([](uint32_t x, uint32_t n) { return extend(x, n, false); })
                                        : lanes([](uint32_t x, uint32_t n) { return extend(x, n & 31, false); }),
        type, {type, Type::u32});
}

// The n-th set bit upward from the base (n > 0), or downward (n < 0); all ones when there is none.
uint32_t nth_set(uint32_t bits, uint32_t base, int32_t n) {
  int64_t at = base & 31;
  if (n == 0) return bits >> at & 1 ? static_cast<uint32_t>(at) : UINT32_MAX;
  const int step = n > 0 ? 1 : -1;
  int64_t left = n > 0 ? int64_t{n} : -int64_t{n};
  for (; at >= 0 && at < 32; at += step)
    if ((bits >> at & 1) && --left == 0) return static_cast<uint32_t>(at);
  return UINT32_MAX;
}

void fns(Builder& b) {
  if (!b.take("b32")) b.reject("not for this type");
  apply(b, lanes([](uint32_t x, uint32_t base, int32_t n) { return nth_set(x, base, n); }), Type::b32,
        {Type::b32, Type::b32, Type::s32});
}

const Instructions known{{"and", logic<Logic::conjunction>}, {"or", logic<Logic::disjunction>},
                         {"xor", logic<Logic::exclusive>}, {"not", negation}, {"cnot", cnot}, {"shl", shl}, {"shr", shr},
                         {"shf", shf}, {"bfe", bfe}, {"bfi", bfi}, {"popc", popc}, {"clz", clz}, {"brev", brev},
                         {"bfind", bfind}, {"prmt", prmt}, {"lop3", lop3}, {"bmsk", bmsk}, {"szext", szext}, {"fns", fns}};

}  // namespace
}  // namespace sim::exec
