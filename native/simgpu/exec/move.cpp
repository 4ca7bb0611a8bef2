// mov, cvta, isspacep, mapa and their like.
#include "exec/apply.h"
#include "exec/memory.h"

namespace sim::exec {
namespace {

template <typename S>
void copy(Warp& w, const Op& op) {
  store_lanes(w.out<S>(op.d), w.in<S>(op.a), w.mask);
}
Run copy_of(bool large) { return large ? &copy<uint64_t> : &copy<uint32_t>; }

// {a, b, …} into one register: each element is `size` bytes.
void gather(Warp& w, const Op& op) {
  const int32_t from[4] = {op.a, op.b, op.c, op.e};
  for (unsigned i = 0; i < kLanes; ++i) {
    if (!(w.mask >> i & 1)) continue;
    uint64_t value = 0;
    for (unsigned k = 0; k < op.count; ++k) {
      const uint64_t part = w.in<uint32_t>(from[k])[i];
      value |= (part & ((1ull << op.size * 8) - 1)) << (op.size * 8 * k);
    }
    if (op.wide) w.out<uint64_t>(op.d)[i] = value;
    else w.out<uint32_t>(op.d)[i] = static_cast<uint32_t>(value);
  }
}

void scatter(Warp& w, const Op& op) {
  const int32_t to[4] = {op.d, op.more[0], op.more[1], op.more[2]};
  for (unsigned i = 0; i < kLanes; ++i) {
    if (!(w.mask >> i & 1)) continue;
    const uint64_t value = op.wide ? w.in<uint64_t>(op.a)[i] : w.in<uint32_t>(op.a)[i];
    for (unsigned k = 0; k < op.count; ++k)
      w.out<uint32_t>(to[k])[i] = static_cast<uint32_t>((value >> (op.size * 8 * k)) & ((1ull << op.size * 8) - 1));
  }
}

Type part_type(Builder& b, Type type, size_t count) {
  const unsigned bytes = bytes_of(type);
  if (count != 2 && count != 4) b.reject("2 or 4 parts");
  switch (bytes / count) {
    case 1: return Type::b8;
    case 2: return Type::b16;
    case 4: return Type::b32;
    default: b.reject("parts of this size");
  }
}

void mov(Builder& b) {
  const Type type = b.take_type();
  b.expect_operands(2, 2);
  const Operand &to = b.operand(0), &from = b.operand(1);
  Op op;
  if (type == Type::pred) {
    op.a = b.read_predicate(from);
    op.d = b.write_predicate(to.name);
    op.run = [](Warp& w, const Op& self) { w.set_predicate(self.d, w.predicate(self.a)); };
    b.add(op);
    return;
  }
  op.wide = bytes_of(type) == 8;
  if (from.kind == Operand::Kind::vector) {
    const Type part = part_type(b, type, from.items.size());
    int32_t* places[4] = {&op.a, &op.b, &op.c, &op.e};
    bool wide = false;
    for (size_t k = 0; k < from.items.size(); ++k) *places[k] = b.read_wider(from.items[k], part, wide);
    if (wide) b.reject("parts of 64 bits");
    op.size = static_cast<uint8_t>(bytes_of(part));
    op.count = static_cast<uint8_t>(from.items.size());
    op.d = b.write(to, type);
    op.run = gather;
  } else if (to.kind == Operand::Kind::vector) {
    const Type part = part_type(b, type, to.items.size());
    int32_t* places[4] = {&op.d, &op.more[0], &op.more[1], &op.more[2]};
    bool wide = false;
    op.a = b.read(from, type);
    for (size_t k = 0; k < to.items.size(); ++k) *places[k] = b.write_wider(to.items[k], part, wide);
    if (wide) b.reject("parts of 64 bits");
    op.size = static_cast<uint8_t>(bytes_of(part));
    op.count = static_cast<uint8_t>(to.items.size());
    op.run = scatter;
  } else {
    op.a = b.read(from, type);
    op.d = b.write(to, type);
    op.run = copy_of(op.wide);
  }
  b.add(op);
}

Memory take_space(Builder& b) {
  if (b.take_any({"shared", "shared::cta", "shared::cluster"})) return Memory::shared;
  if (b.take("local")) return Memory::local;
  if (b.take_any({"param", "param::entry", "param::func"})) return Memory::parameter;
  if (b.take_any({"global", "const"})) return Memory::global;
  b.reject("unknown space");
}

uint64_t window(const Warp& w, Memory space, unsigned lane) {
  Warp& warp = const_cast<Warp&>(w);
  switch (space) {
    case Memory::shared: return reinterpret_cast<uint64_t>(warp.block.shared());
    case Memory::local: return reinterpret_cast<uint64_t>(warp.stack_bytes() ? warp.stack(lane) : nullptr);
    case Memory::parameter: return reinterpret_cast<uint64_t>(warp.block.grid.launch.parameters);
    default: return 0;
  }
}

// mode: 1 = to the space, 0 = to generic.
void convert(Warp& w, const Op& op) {
  for (unsigned i = 0; i < kLanes; ++i) {
    if (!(w.mask >> i & 1)) continue;
    const uint64_t base = window(w, op.memory, i);
    const uint64_t from = w.in<uint64_t>(op.a)[i];
    w.out<uint64_t>(op.d)[i] = op.mode ? from - base : from + base;
  }
}

void cvta(Builder& b) {
  Op op;
  op.mode = b.take("to");
  op.memory = take_space(b);
  if (b.take_type() != Type::u64) b.reject("addresses have 64 bits");
  b.expect_operands(2, 2);
  // A kernel's parameters lie in a buffer; a function's in its frame.
  if (op.memory == Memory::parameter && !b.entry()) op.memory = Memory::local;
  op.a = b.read(b.operand(1), Type::u64);
  op.d = b.write(b.operand(0), Type::u64);
  op.run = op.memory == Memory::global ? copy_of(true) : &convert;
  b.add(op);
}

void inside(Warp& w, const Op& op) {
  uint32_t bits = 0;
  for (unsigned i = 0; i < kLanes; ++i) {
    const uint64_t at = w.in<uint64_t>(op.a)[i];
    const bool shared = at - window(w, Memory::shared, i) < w.block.grid.shared_bytes;
    const bool local = w.stack_bytes() && at - window(w, Memory::local, i) < w.stack_bytes();
    const bool parameter = at - window(w, Memory::parameter, i) < w.block.grid.kernel.parameter_bytes;
    const bool yes = op.memory == Memory::shared      ? shared
                     : op.memory == Memory::local     ? local
                     : op.memory == Memory::parameter ? parameter
                                                      : !shared && !local;
    bits |= static_cast<uint32_t>(yes) << i;
  }
  w.set_predicate(op.d, bits);
}

void isspacep(Builder& b) {
  Op op;
  op.memory = take_space(b);
  b.expect_operands(2, 2);
  op.a = b.read(b.operand(1), Type::u64);
  op.d = b.write_predicate(b.operand(0).name);
  op.run = inside;
  b.add(op);
}

const Instructions known{{"mov", mov}, {"cvta", cvta}, {"isspacep", isspacep}};

}  // namespace
}  // namespace sim::exec
