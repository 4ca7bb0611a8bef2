// Exchange between the lanes of a warp.
#include <bit>

#include "exec/apply.h"

namespace sim::exec {
namespace {

// d of d|p
Operand first_of(const Operand& pair) {
  Operand result = pair;
  result.second = {};
  return result;
}

enum Shuffle : uint8_t { up, down, bfly, idx };

// a = value, b = lane or distance, c = segment and bounds, d, more[0] = whether the source lane was in range.
void shuffle(Warp& w, const Op& op) {
  const uint32_t *value = w.in<uint32_t>(op.a), *distance = w.in<uint32_t>(op.b), *control = w.in<uint32_t>(op.c);
  alignas(64) uint32_t result[kLanes];
  uint32_t valid = 0;
  for (unsigned i = 0; i < kLanes; ++i) {
    const int by = static_cast<int>(distance[i] & 31), clamp = static_cast<int>(control[i] & 31);
    const int segment = static_cast<int>(control[i] >> 8 & 31);
    const int lane = static_cast<int>(i);
    const int last = (lane & segment) | (clamp & ~segment);
    const int first = lane & segment;
    int from = lane;
    bool good = false;
    switch (op.mode) {
      case up: from = lane - by; good = from >= last; break;
      case down: from = lane + by; good = from <= last; break;
      case bfly: from = lane ^ by; good = from <= last; break;
      default: from = first | (by & ~segment); good = from <= last; break;
    }
    if (!good) from = lane;
    result[i] = value[from & 31];
    valid |= static_cast<uint32_t>(good) << i;
  }
  store_lanes(w.out<uint32_t>(op.d), result, w.mask);
  if (op.more[0] != kNone) w.set_predicate(op.more[0], valid);
}

void shfl(Builder& b) {
  if (!b.take("sync")) b.reject("expected .sync");
  Op op;
  op.mode = b.take("up") ? up : b.take("down") ? down : b.take("bfly") ? bfly : b.take("idx") ? idx : 9;
  if (op.mode == 9) b.reject("unknown direction");
  if (!b.take("b32")) b.reject("not for this type");
  b.expect_operands(5, 5);
  op.flow = Flow::converged;
  op.run = shuffle;
  op.a = b.read(b.operand(1), Type::b32);
  op.b = b.read(b.operand(2), Type::b32);
  op.c = b.read(b.operand(3), Type::b32);
  op.e = b.read(b.operand(4), Type::b32);
  op.d = b.write(first_of(b.operand(0)), Type::b32);
  if (!b.operand(0).second.empty()) op.more[0] = b.write_predicate(b.operand(0).second);
  b.add(op);
}

// mode: 0 all, 1 any, 2 uniform, 3 ballot
void vote_run(Warp& w, const Op& op) {
  const uint32_t yes = w.predicate(op.a) & w.mask;
  if (op.mode == 3) {
    for (unsigned i = 0; i < kLanes; ++i)
      if (w.mask >> i & 1) w.out<uint32_t>(op.d)[i] = yes;
    return;
  }
  const bool result = op.mode == 0 ? yes == w.mask : op.mode == 1 ? yes != 0 : yes == w.mask || yes == 0;
  w.set_predicate(op.d, result ? kAllLanes : 0);
}

void vote(Builder& b) {
  if (!b.take("sync")) b.reject("expected .sync");
  Op op;
  op.mode = b.take("all") ? 0 : b.take("any") ? 1 : b.take("uni") ? 2 : b.take("ballot") ? 3 : 9;
  if (op.mode == 9) b.reject("unknown vote");
  const Type type = b.take_type();
  if (type != (op.mode == 3 ? Type::b32 : Type::pred)) b.reject("not for this type");
  b.expect_operands(3, 3);
  op.flow = Flow::converged;
  op.run = vote_run;
  op.a = b.read_predicate(b.operand(1));
  op.e = b.read(b.operand(2), Type::b32);
  op.d = b.write(b.operand(0), type);
  b.add(op);
}

template <typename T>
void match_run(Warp& w, const Op& op) {
  const T* value = w.in<T>(op.a);
  uint32_t result[kLanes] = {};
  const uint32_t members = w.in<uint32_t>(op.e)[std::countr_zero(w.mask)] & w.mask;
  for (unsigned i = 0; i < kLanes; ++i)
    for (unsigned k = 0; k < kLanes; ++k)
      if ((members >> k & 1) && value[i] == value[k]) result[i] |= 1u << k;
  if (op.mode == 0) {
    store_lanes(w.out<uint32_t>(op.d), result, w.mask);
    return;
  }
  const bool same = members && result[std::countr_zero(members)] == members;
  const uint32_t all[kLanes] = {};
  store_lanes(w.out<uint32_t>(op.d), same ? result : all, w.mask);
  if (op.more[0] != kNone) w.set_predicate(op.more[0], same ? kAllLanes : 0);
}

void match(Builder& b) {
  Op op;
  op.mode = b.take("any") ? 0 : b.take("all") ? 1 : 9;
  if (op.mode == 9) b.reject("expected .any or .all");
  if (!b.take("sync")) b.reject("expected .sync");
  const Type type = b.take_type();
  if (type != Type::b32 && type != Type::b64) b.reject("not for this type");
  b.expect_operands(3, 3);
  op.flow = Flow::converged;
  op.run = type == Type::b32 ? &match_run<uint32_t> : &match_run<uint64_t>;
  op.a = b.read(b.operand(1), type);
  op.e = b.read(b.operand(2), Type::b32);
  op.d = b.write(first_of(b.operand(0)), Type::b32);
  if (!b.operand(0).second.empty()) op.more[0] = b.write_predicate(b.operand(0).second);
  b.add(op);
}

// mode: 0 add, 1 min, 2 max, 3 and, 4 or, 5 xor
template <typename T>
void reduce(Warp& w, const Op& op) {
  const uint32_t* value = w.in<uint32_t>(op.a);
  bool first = true;
  uint32_t result = 0;
  for (unsigned i = 0; i < kLanes; ++i) {
    if (!(w.mask >> i & 1)) continue;
    const uint32_t x = value[i];
    if (first) result = x;
    else if (op.mode == 0) result += x;
    else if (op.mode == 1) result = static_cast<T>(x) < static_cast<T>(result) ? x : result;
    else if (op.mode == 2) result = static_cast<T>(x) > static_cast<T>(result) ? x : result;
    else if (op.mode == 3) result &= x;
    else if (op.mode == 4) result |= x;
    else result ^= x;
    first = false;
  }
  for (unsigned i = 0; i < kLanes; ++i)
    if (w.mask >> i & 1) w.out<uint32_t>(op.d)[i] = result;
}

void redux(Builder& b) {
  if (!b.take("sync")) b.reject("expected .sync");
  Op op;
  op.mode = b.take("add") ? 0 : b.take("min") ? 1 : b.take("max") ? 2 : b.take("and") ? 3 : b.take("or") ? 4 : b.take("xor") ? 5 : 9;
  if (op.mode == 9) b.reject("unknown reduction");
  const Type type = b.take_type();
  if (type != Type::u32 && type != Type::s32 && type != Type::b32) b.reject("not for this type");
  b.expect_operands(3, 3);
  op.flow = Flow::converged;
  op.run = type == Type::s32 ? &reduce<int32_t> : &reduce<uint32_t>;
  op.a = b.read(b.operand(1), type);
  op.e = b.read(b.operand(2), Type::b32);
  op.d = b.write(b.operand(0), type);
  b.add(op);
}

void elect(Builder& b) {
  if (!b.take("sync")) b.reject("expected .sync");
  b.expect_operands(2, 2);
  Op op;
  op.flow = Flow::converged;
  op.e = b.read(b.operand(1), Type::b32);
  op.d = b.write(first_of(b.operand(0)), Type::b32);
  op.more[0] = b.write_predicate(b.operand(0).second);
  op.run = [](Warp& w, const Op& self) {
    const auto leader = static_cast<uint32_t>(std::countr_zero(w.mask));
    for (unsigned i = 0; i < kLanes; ++i)
      if (w.mask >> i & 1) w.out<uint32_t>(self.d)[i] = leader;
    w.set_predicate(self.more[0], 1u << leader);
  };
  b.add(op);
}

void activemask(Builder& b) {
  if (!b.take("b32")) b.reject("not for this type");
  b.expect_operands(1, 1);
  Op op;
  op.d = b.write(b.operand(0), Type::b32);
  op.run = [](Warp& w, const Op& self) {
    for (unsigned i = 0; i < kLanes; ++i)
      if (w.mask >> i & 1) w.out<uint32_t>(self.d)[i] = w.mask;
  };
  b.add(op);
}

const Instructions known{{"shfl", shfl}, {"vote", vote}, {"match", match}, {"redux", redux}, {"elect", elect},
                         {"activemask", activemask}};

}  // namespace
}  // namespace sim::exec
