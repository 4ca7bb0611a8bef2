// Translations of integer forms of instructions that floating-point types have too.
#pragma once

#include "exec/builder.h"

namespace sim::exec {

void add_integer(Builder& b, Type type, bool subtract);
void add_saturated(Builder& b, bool subtract);
void add_with_carry(Builder& b, bool subtract, bool carry_in, bool carry_out);
void multiply_integer(Builder& b);
void multiply_add_integer(Builder& b);
void multiply_add(Builder& b);  // mad and fma, floating-point types too
void divide_integer(Builder& b, Type type, bool rest);
void extreme_integer(Builder& b, Type type, bool largest, bool relu);
void absolute_integer(Builder& b, Type type);
void negate_integer(Builder& b, Type type);

}  // namespace sim::exec
