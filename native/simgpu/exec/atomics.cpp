// atom and red: each lane in turn, each access one atomic operation of the CPU.
#include <algorithm>
#include <cstring>

#include "exec/apply.h"
#include "exec/float_math.h"
#include "exec/memory.h"

namespace sim::exec {
namespace {

bool in_shared(Warp& w, const Op& op, uint64_t place) {
  const auto base = reinterpret_cast<uint64_t>(w.block.shared());
  return op.memory == Memory::shared || (op.memory == Memory::generic && place - base < w.block.grid.shared_bytes);
}

// Every operation as a loop around compare and exchange: M = memory word, f(old, operand, second) = new; g in its place
// for shared memory.
template <typename M, auto f, auto g = f>
void modify(Warp& w, const Op& op) {
  Places places;
  Op where = op;
  where.wide = op.mode & 1;
  find_places(w, where, sizeof(M), true, places);
  const uint32_t mask = w.mask;
  alignas(64) Stored<M> before[kLanes] = {};
  for (unsigned i = 0; i < kLanes; ++i) {
    if (!(mask >> i & 1)) continue;
    const M operand = static_cast<M>(w.in<Stored<M>>(op.b)[i]);
    const M second = op.c == kNone ? M{} : static_cast<M>(w.in<Stored<M>>(op.c)[i]);
    auto* place = reinterpret_cast<M*>(places.at[i]);
    const auto next = f != g && in_shared(w, op, places.at[i]) ? g : f;
    M old = __atomic_load_n(place, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(place, &old, next(old, operand, second), false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {}
    before[i] = old;
  }
  if (op.d != kNone) store_lanes(w.out<Stored<M>>(op.d), before, mask);
}

template <typename T, typename F>
uint32_t halves(uint32_t x, uint32_t y, F f) {
  const uint32_t low = f(T{static_cast<uint16_t>(x)}, T{static_cast<uint16_t>(y)}).bits;
  return low | uint32_t{f(T{static_cast<uint16_t>(x >> 16)}, T{static_cast<uint16_t>(y >> 16)}).bits} << 16;
}

template <typename M> M exchange(M, M x, M) { return x; }
template <typename M> M compare(M old, M expected, M next) { return old == expected ? next : old; }
template <typename M> M add(M old, M x, M) { return old + x; }
template <typename M> M conjunction(M old, M x, M) { return old & x; }
template <typename M> M disjunction(M old, M x, M) { return old | x; }
template <typename M> M exclusive(M old, M x, M) { return old ^ x; }
template <typename M> M increment(M old, M x, M) { return old >= x ? 0 : old + 1; }
template <typename M> M decrement(M old, M x, M) { return old == 0 || old > x ? x : old - 1; }
template <typename M> M smallest(M old, M x, M) { return std::min(old, x); }
template <typename M> M largest(M old, M x, M) { return std::max(old, x); }
template <typename M> M smallest_signed(M old, M x, M) {
  using S = std::make_signed_t<M>;
  return static_cast<M>(std::min(static_cast<S>(old), static_cast<S>(x)));
}
template <typename M> M largest_signed(M old, M x, M) {
  using S = std::make_signed_t<M>;
  return static_cast<M>(std::max(static_cast<S>(old), static_cast<S>(x)));
}
uint32_t add_f32(uint32_t old, uint32_t x, uint32_t) {
  return std::bit_cast<uint32_t>(plus(std::bit_cast<float>(old), std::bit_cast<float>(x)));
}
uint32_t add_f32_flushed(uint32_t old, uint32_t x, uint32_t) {  // subnormal numbers count as zero in global memory only
  return std::bit_cast<uint32_t>(flush(plus(flush(std::bit_cast<float>(old)), flush(std::bit_cast<float>(x)))));
}
uint64_t add_f64(uint64_t old, uint64_t x, uint64_t) {
  return std::bit_cast<uint64_t>(plus(std::bit_cast<double>(old), std::bit_cast<double>(x)));
}
template <typename T> uint16_t add_small(uint16_t old, uint16_t x, uint16_t) { return plus(T{old}, T{x}).bits; }
template <typename T> uint32_t add_two(uint32_t old, uint32_t x, uint32_t) { return halves<T>(old, x, [](T p, T q) { return plus(p, q); }); }
template <typename T> uint16_t min_small(uint16_t old, uint16_t x, uint16_t) { return extreme<T, false, false>(T{old}, T{x}).bits; }
template <typename T> uint16_t max_small(uint16_t old, uint16_t x, uint16_t) { return extreme<T, true, false>(T{old}, T{x}).bits; }

Run integer_operation(Builder& b, std::string_view name, Type type) {
  const bool large = bytes_of(type) == 8, small = bytes_of(type) == 2;
  const bool sign = ptx::is_signed(type);
#define SIM_BOTH(function) (large ? &modify<uint64_t, function<uint64_t>> : &modify<uint32_t, function<uint32_t>>)
  if (small && name == "cas") return &modify<uint16_t, compare<uint16_t>>;
  if (small && name == "exch") return &modify<uint16_t, exchange<uint16_t>>;
  if (small || bytes_of(type) < 4) b.reject("not for this type");
  if (name == "exch") return SIM_BOTH(exchange);
  if (name == "cas") return SIM_BOTH(compare);
  if (name == "add") return SIM_BOTH(add);
  if (name == "and") return SIM_BOTH(conjunction);
  if (name == "or") return SIM_BOTH(disjunction);
  if (name == "xor") return SIM_BOTH(exclusive);
  if (name == "min") return sign ? SIM_BOTH(smallest_signed) : SIM_BOTH(smallest);
  if (name == "max") return sign ? SIM_BOTH(largest_signed) : SIM_BOTH(largest);
  if (name == "inc" && type == Type::u32) return &modify<uint32_t, increment<uint32_t>>;
  if (name == "dec" && type == Type::u32) return &modify<uint32_t, decrement<uint32_t>>;
#undef SIM_BOTH
  b.reject("unknown operation");
}

Run float_operation(Builder& b, std::string_view name, Type type) {
  if (name == "add") {
    switch (type) {
      case Type::f32: return &modify<uint32_t, add_f32_flushed, add_f32>;
      case Type::f64: return &modify<uint64_t, add_f64>;
      case Type::f16: return &modify<uint16_t, add_small<Half>>;
      case Type::bf16: return &modify<uint16_t, add_small<Brain>>;
      case Type::f16x2: return &modify<uint32_t, add_two<Half>>;
      case Type::bf16x2: return &modify<uint32_t, add_two<Brain>>;
      default: break;
    }
  }
  if (name == "min" && type == Type::f16) return &modify<uint16_t, min_small<Half>>;
  if (name == "max" && type == Type::f16) return &modify<uint16_t, max_small<Half>>;
  if (name == "min" && type == Type::bf16) return &modify<uint16_t, min_small<Brain>>;
  if (name == "max" && type == Type::bf16) return &modify<uint16_t, max_small<Brain>>;
  b.reject("not for this type");
}

void atomic(Builder& b, bool returns) {
  Op op;
  std::string_view name;
  bool hint = false;
  for (;;) {
    if (b.take_any({"relaxed", "acquire", "release", "acq_rel", "cta", "cluster", "gpu", "sys", "noftz"})) continue;
    if (b.take("global")) op.memory = Memory::global;
    else if (b.take_any({"shared", "shared::cta", "shared::cluster"})) op.memory = Memory::shared;
    else if (b.take("L2::cache_hint")) hint = true;
    else if (name.empty() && ptx::type_named(b.peek()) == Type::none && !b.peek().empty()) {
      name = b.peek();
      b.take(name);
    } else break;
  }
  const Type type = b.take_type();
  const size_t inputs = (name == "cas" ? 2 : 1) + (returns ? 1 : 0) + 1;
  b.expect_operands(inputs, inputs + (hint ? 1 : 0));
  op.run = is_float(type) ? float_operation(b, name, type) : integer_operation(b, name, type);
  size_t at = returns ? 1 : 0;
  b.address(op, b.operand(at++));
  op.mode = op.wide ? 1 : 0;
  op.b = b.read(b.operand(at++), type);
  if (name == "cas") op.c = b.read(b.operand(at), type);
  if (returns) op.d = b.write(b.operand(0), type);
  b.add(op);
}

void atom(Builder& b) { atomic(b, true); }
void red(Builder& b) { atomic(b, false); }

const Instructions known{{"atom", atom}, {"red", red}};

}  // namespace
}  // namespace sim::exec
