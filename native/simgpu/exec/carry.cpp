// Arithmetic of many words: the condition code is a predicate of the function.
#include "exec/apply.h"
#include "exec/integer.h"

namespace sim::exec {
namespace {

// mode: 1 = subtracts, 2 = takes the carry in, 4 = gives it out. e = the condition code.
template <typename T>
void carried(Warp& w, const Op& op) {
  alignas(64) T result[kLanes];
  const T *x = w.in<T>(op.a), *y = w.in<T>(op.b);
  const uint32_t in = op.mode & 2 ? w.predicate(op.e) : 0;
  uint32_t out = 0;
  for (unsigned i = 0; i < kLanes; ++i) {
    const T c = in >> i & 1;
    if (op.mode & 1) {
      const T once = x[i] - y[i];
      result[i] = once - c;
      out |= static_cast<uint32_t>(x[i] < y[i] || once < c) << i;
    } else {
      const T once = x[i] + y[i];
      result[i] = once + c;
      out |= static_cast<uint32_t>(once < x[i] || result[i] < once) << i;
    }
  }
  store_lanes(w.out<T>(op.d), result, w.mask);
  if (op.mode & 4) w.set_predicate(op.e, out);
}

void addc(Builder& b) { add_with_carry(b, false, true, b.take("cc")); }
void subc(Builder& b) { add_with_carry(b, true, true, b.take("cc")); }

void multiply_add_carry(Builder& b, bool carry_in) {
  const bool upper = b.take("hi");
  if (!upper && !b.take("lo")) b.reject("expected .lo or .hi");
  const bool carry_out = b.take("cc");
  const Type type = b.take_type();
  b.expect_operands(4, 4);
  const int32_t product = b.temporary(bytes_of(type));
  Op first;
  first.a = b.read(b.operand(1), type);
  first.b = b.read(b.operand(2), type);
  first.d = product;
  switch (type) {
    case Type::u32: first.run = upper ? lanes([](uint32_t x, uint32_t y) { return static_cast<uint32_t>(uint64_t{x} * y >> 32); }) : lanes([](uint32_t x, uint32_t y) { return x * y; }); break;
    case Type::s32: first.run = upper ? lanes([](int32_t x, int32_t y) { return static_cast<int32_t>(int64_t{x} * y >> 32); }) : lanes([](uint32_t x, uint32_t y) { return x * y; }); break;
    case Type::u64: first.run = upper ? lanes([](uint64_t x, uint64_t y) { return static_cast<uint64_t>(static_cast<unsigned __int128>(x) * y >> 64); }) : lanes([](uint64_t x, uint64_t y) { return x * y; }); break;
    case Type::s64: first.run = upper ? lanes([](int64_t x, int64_t y) { return static_cast<int64_t>(static_cast<__int128>(x) * y >> 64); }) : lanes([](uint64_t x, uint64_t y) { return x * y; }); break;
    default: b.reject("not for this type");
  }
  b.add(first);
  Op second;
  second.run = bytes_of(type) == 4 ? &carried<uint32_t> : &carried<uint64_t>;
  second.a = product;
  second.b = b.read(b.operand(3), type);
  second.d = b.write(b.operand(0), type);
  second.e = b.carry();
  second.mode = static_cast<uint8_t>((carry_in ? 2 : 0) | (carry_out ? 4 : 0));
  b.add(second);
}

void mad(Builder& b) {
  const auto& parts = b.instruction().parts;
  if (parts.size() > 2 && parts[2] == "cc") return multiply_add_carry(b, false);
  multiply_add(b);
}
void madc(Builder& b) { multiply_add_carry(b, true); }

const Instructions known{{"addc", addc}, {"subc", subc}, {"madc", madc}, {"mad", mad}};

}  // namespace

void add_with_carry(Builder& b, bool subtract, bool carry_in, bool carry_out) {
  const Type type = b.take_type();
  if (ptx::is_float(type) || bytes_of(type) < 4) b.reject("not for this type");
  Op& op = apply(b, bytes_of(type) == 4 ? &carried<uint32_t> : &carried<uint64_t>, type, {type, type});
  op.e = b.carry();
  op.mode = static_cast<uint8_t>((subtract ? 1 : 0) | (carry_in ? 2 : 0) | (carry_out ? 4 : 0));
}

}  // namespace sim::exec
