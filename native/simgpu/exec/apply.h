// What most translations need.
#pragma once

#include <initializer_list>

#include "exec/builder.h"
#include "exec/lanes.h"

namespace sim::exec {

// d, a, b, … with one type each; the operation is `run`. Everything of the opcode must have been taken.
inline Op& apply(Builder& b, Run run, Type result, std::initializer_list<Type> inputs) {
  b.expect_operands(inputs.size() + 1, inputs.size() + 1);
  Op op;
  op.run = run;
  int32_t* places[] = {&op.a, &op.b, &op.c, &op.e};
  size_t i = 0;
  for (const Type type : inputs) {
    *places[i] = b.read(b.operand(i + 1), type);
    ++i;
  }
  op.d = b.write(b.operand(0), result);
  return b.add(op);
}

// Calls `make` with a value of the C++ type that stands for an integer type; rejects others.
template <typename G>
Run for_integer(Builder& b, Type type, G make) {
  switch (type) {
    case Type::u16: case Type::b16: return make(uint16_t{});
    case Type::s16: return make(int16_t{});
    case Type::u32: case Type::b32: return make(uint32_t{});
    case Type::s32: return make(int32_t{});
    case Type::u64: case Type::b64: return make(uint64_t{});
    case Type::s64: return make(int64_t{});
    default: b.reject("not for this type");
  }
}

// The same for what does not depend on the sign.
template <typename G>
Run for_bits(Builder& b, Type type, G make) {
  switch (bytes_of(type)) {
    case 2: return make(uint16_t{});
    case 4: return make(uint32_t{});
    case 8: return make(uint64_t{});
    default: b.reject("not for this type");
  }
}

}  // namespace sim::exec
