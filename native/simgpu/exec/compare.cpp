// Comparisons and selections.
#include "exec/apply.h"
#include "exec/floats.h"

namespace sim::exec {
namespace {

enum class Test : uint8_t { eq, ne, lt, le, gt, ge, equ, neu, ltu, leu, gtu, geu, num, nan };

// Unordered forms are true when an operand is no number.
template <Test test, typename T>
[[gnu::always_inline]] inline bool holds(T a, T b) {
  bool unordered = false;
  if constexpr (std::is_floating_point_v<T>) unordered = is_nan(a) || is_nan(b);
  if constexpr (test == Test::eq) return a == b;
  else if constexpr (test == Test::ne) return !unordered && a != b;
  else if constexpr (test == Test::lt) return a < b;
  else if constexpr (test == Test::le) return a <= b;
  else if constexpr (test == Test::gt) return a > b;
  else if constexpr (test == Test::ge) return a >= b;
  else if constexpr (test == Test::equ) return unordered || a == b;
  else if constexpr (test == Test::neu) return unordered || a != b;
  else if constexpr (test == Test::ltu) return unordered || a < b;
  else if constexpr (test == Test::leu) return unordered || a <= b;
  else if constexpr (test == Test::gtu) return unordered || a > b;
  else if constexpr (test == Test::geu) return unordered || a >= b;
  else if constexpr (test == Test::num) return !unordered;
  else return unordered;
}

template <typename T, typename In, bool ftz>
struct Compare {
  static T value(In x) {
    if constexpr (std::is_same_v<In, Half> || std::is_same_v<In, Brain>) return float_of(x);
    else if constexpr (ftz) return flush(x);
    else return x;
  }
  template <Test test>
  static Run run() {
    return lanes([](In a, In b) -> bool { return holds<test, T>(value(a), value(b)); });
  }
  static Run pick(Test test) {
    switch (test) {
      case Test::eq: return run<Test::eq>();
      case Test::ne: return run<Test::ne>();
      case Test::lt: return run<Test::lt>();
      case Test::le: return run<Test::le>();
      case Test::gt: return run<Test::gt>();
      case Test::ge: return run<Test::ge>();
      default: break;
    }
    if constexpr (std::is_floating_point_v<T>) {
      switch (test) {
        case Test::equ: return run<Test::equ>();
        case Test::neu: return run<Test::neu>();
        case Test::ltu: return run<Test::ltu>();
        case Test::leu: return run<Test::leu>();
        case Test::gtu: return run<Test::gtu>();
        case Test::geu: return run<Test::geu>();
        case Test::num: return run<Test::num>();
        default: return run<Test::nan>();
      }
    }
    return nullptr;
  }
};

Run comparison(Builder& b, Test test, Type type, bool ftz) {
  Run run = nullptr;
  if (type == Type::f32) run = ftz ? Compare<float, float, true>::pick(test) : Compare<float, float, false>::pick(test);
  else if (type == Type::f64) run = Compare<double, double, false>::pick(test);
  else if (type == Type::f16) run = Compare<float, Half, false>::pick(test);
  else if (type == Type::bf16) run = Compare<float, Brain, false>::pick(test);
  else run = for_integer(b, type, [&]<typename T>(T) { return Compare<T, T, false>::pick(test); });
  if (!run) b.reject("this comparison is not for this type");
  return run;
}

Test take_test(Builder& b) {
  static constexpr std::pair<std::string_view, Test> all[] = {
      {"eq", Test::eq}, {"ne", Test::ne}, {"lt", Test::lt}, {"le", Test::le}, {"gt", Test::gt}, {"ge", Test::ge},
      {"equ", Test::equ}, {"neu", Test::neu}, {"ltu", Test::ltu}, {"leu", Test::leu}, {"gtu", Test::gtu},
      {"geu", Test::geu}, {"num", Test::num}, {"nan", Test::nan}, {"lo", Test::lt}, {"ls", Test::le}, {"hi", Test::gt},
      {"hs", Test::ge}};
  for (const auto& [name, test] : all)
    if (b.take(name)) return test;
  b.reject("unknown comparison");
}

void combine(Builder& b, int32_t place, const Operand& other, int how) {
  Op op;
  op.a = place;
  op.b = b.read_predicate(other);
  op.d = place;
  op.run = how == 0   ? [](Warp& w, const Op& self) { w.set_predicate(self.d, w.predicate(self.a) & w.predicate(self.b)); }
           : how == 1 ? [](Warp& w, const Op& self) { w.set_predicate(self.d, w.predicate(self.a) | w.predicate(self.b)); }
                      : [](Warp& w, const Op& self) { w.set_predicate(self.d, w.predicate(self.a) ^ w.predicate(self.b)); };
  b.add(op);
}

int take_combination(Builder& b) { return b.take("and") ? 0 : b.take("or") ? 1 : b.take("xor") ? 2 : -1; }

void copy_predicate(Builder& b, int32_t from, int32_t to, bool negated) {
  Op op;
  op.a = from;
  op.d = to;
  op.run = negated ? [](Warp& w, const Op& self) { w.set_predicate(self.d, ~w.predicate(self.a)); }
                   : [](Warp& w, const Op& self) { w.set_predicate(self.d, w.predicate(self.a)); };
  b.add(op);
}

bool is_packed(Type type) { return type == Type::f16x2 || type == Type::bf16x2; }

int32_t half_of(Builder& b, int32_t from, bool upper) {
  Op op;
  op.run = upper ? lanes([](uint32_t x) { return x >> 16; }) : lanes([](uint32_t x) { return x & 0xffffu; });
  op.a = from;
  op.d = b.temporary(4);
  return b.add(op).d;
}

// The comparison of operands 1 and 2 into a new predicate; of one half for packed types.
int32_t compared(Builder& b, Test test, Type type, bool ftz, bool upper) {
  Op op;
  op.a = b.read(b.operand(1), type);
  op.b = b.read(b.operand(2), type);
  if (is_packed(type)) {
    op.a = half_of(b, op.a, upper);
    op.b = half_of(b, op.b, upper);
    type = type == Type::f16x2 ? Type::f16 : Type::bf16;
  }
  op.run = comparison(b, test, type, ftz);
  op.d = b.temporary(0);
  return b.add(op).d;
}

// The two results of setp: the comparison and its negation, each combined with the third operand. Packed types have one
// for each half.
void setp(Builder& b) {
  const Test test = take_test(b);
  const int how = take_combination(b);
  const bool ftz = b.take("ftz");
  const Type type = b.take_type();
  const unsigned inputs = how < 0 ? 2 : 3;
  b.expect_operands(inputs + 1, inputs + 1);
  const Operand& result = b.operand(0);
  const int32_t yes = compared(b, test, type, ftz, false);
  int32_t no = kNone;
  if (!result.second.empty()) {
    if (is_packed(type)) {
      no = compared(b, test, type, ftz, true);
    } else {
      no = b.temporary(0);
      copy_predicate(b, yes, no, true);
    }
  }
  if (how >= 0) {
    combine(b, yes, b.operand(3), how);
    if (no != kNone) combine(b, no, b.operand(3), how);
  }
  if (result.kind != Operand::Kind::blank) copy_predicate(b, yes, b.write_predicate(result.name), false);
  if (no != kNone && result.second != "_") copy_predicate(b, no, b.write_predicate(result.second), false);
}

// What a true comparison is in a type of set's result.
uint32_t truth(Builder& b, Type type) {
  switch (type) {
    case Type::u32: case Type::s32: return 0xffffffffu;
    case Type::u16: case Type::s16: return 0xffffu;
    case Type::f32: return 0x3f800000u;
    case Type::f16: case Type::f16x2: return 0x3c00u;
    case Type::bf16: case Type::bf16x2: return 0x3f80u;
    default: b.reject("not supported for this type");
  }
}

void set(Builder& b) {
  const Test test = take_test(b);
  const int how = take_combination(b);
  const bool ftz = b.take("ftz");
  const Type out = b.take_type(), type = b.take_type();
  const unsigned inputs = how < 0 ? 2 : 3;
  b.expect_operands(inputs + 1, inputs + 1);
  const bool two = is_packed(type);
  uint32_t yes = truth(b, out);
  if (two) {
    if (bytes_of(out) != 4 || out == Type::f32) b.reject("not supported for this type");
    yes &= 0xffffu;
  } else if (is_packed(out)) {
    b.reject("not for this type");
  }
  Op last;
  last.a = compared(b, test, type, ftz, false);
  if (how >= 0) combine(b, last.a, b.operand(3), how);
  if (two) {
    last.b = compared(b, test, type, ftz, true);
    if (how >= 0) combine(b, last.b, b.operand(3), how);
  }
  last.d = b.write(b.operand(0), out);
  last.immediate = yes;
  last.run = [](Warp& w, const Op& self) {
    const uint32_t low = w.predicate(self.a), high = self.b == kNone ? 0 : w.predicate(self.b);
    const auto value = static_cast<uint32_t>(self.immediate);
    uint32_t* to = w.out<uint32_t>(self.d);
    for (unsigned i = 0; i < kLanes; ++i)
      if (w.mask >> i & 1) to[i] = (low >> i & 1 ? value : 0) | (high >> i & 1 ? value << 16 : 0);
  };
  b.add(last);
}

template <typename S>
[[gnu::always_inline]] inline void select_body(Warp& w, const Op& op) {
  const uint32_t bits = w.predicate(op.c);
  const S *x = w.in<S>(op.a), *y = w.in<S>(op.b);
  alignas(64) S result[kLanes];
  for (unsigned i = 0; i < kLanes; ++i) result[i] = bits >> i & 1 ? x[i] : y[i];
  store_lanes(w.out<S>(op.d), result, w.mask);
}
template <typename S>
void select_plain(Warp& w, const Op& op) { select_body<S>(w, op); }
template <typename S>
SIM_WIDE void select_wide(Warp& w, const Op& op) { select_body<S>(w, op); }

void selp(Builder& b) {
  const Type type = b.take_type();
  const bool large = bytes_of(type) == 8;
  apply(b, large ? has_wide() ? select_wide<uint64_t> : select_plain<uint64_t>
                 : has_wide() ? select_wide<uint32_t> : select_plain<uint32_t>, type, {type, type, Type::pred});
}

void slct(Builder& b) {
  b.take("ftz");
  const Type type = b.take_type(), by = b.take_type();
  if (by != Type::s32 && by != Type::f32) b.reject("not for this type");
  apply(b, for_bits(b, type, [&]<typename T>(T) {
          return by == Type::s32 ? lanes([](T x, T y, int32_t c) { return c >= 0 ? x : y; })
                                 : lanes([](T x, T y, float c) { return c >= 0 ? x : y; });
        }), type, {type, type, by});
}

const Instructions known{{"setp", setp}, {"set", set}, {"selp", selp}, {"slct", slct}};

}  // namespace
}  // namespace sim::exec
