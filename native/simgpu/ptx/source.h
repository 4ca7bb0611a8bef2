// A PTX text as read, before its meaning is checked. All names are views into the text, which must outlive it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sim::ptx {

// Ends the reading of a text; caught in parse().
struct Rejected {
  uint32_t line;
  std::string text;
  bool version = false;  // not wrong, but too new
};

enum class Type : uint8_t { none, pred, b8, b16, b32, b64, b128, u8, u16, u32, u64, u16x2, s16x2, s8, s16, s32, s64,
                            f16, f16x2, bf16, bf16x2, tf32, f32, f64 };

unsigned bytes_of(Type type);  // 0 for none and pred
bool is_signed(Type type);
bool is_float(Type type);                   // any float, packed ones included
Type type_named(std::string_view name);     // "u32", without the point; none when there is no such type

struct Operand {
  enum class Kind : uint8_t { name, integer, single, real, address, vector, blank };
  Kind kind = Kind::blank;
  bool negated = false;          // !p
  std::string_view name;         // name; the base of an address, empty for a plain number
  std::string_view second;       // q of p|q
  uint64_t value = 0;            // integer; bits of a float or double; offset of an address
  std::vector<Operand> items;    // vector: {a, b}, or the parts of a call
};

struct Instruction {
  uint32_t line = 0;
  std::string_view opcode;               // "ld.global.u32"
  std::vector<std::string_view> parts;   // "ld", "global", "u32"
  std::string_view guard;                // @p; empty without
  bool guard_negated = false;
  std::vector<Operand> operands;
};

struct Declaration {
  enum class Space : uint8_t { reg, local, shared, param, global, constant };
  uint32_t line = 0;
  Space space = Space::reg;
  Type type = Type::none;
  std::string_view name;
  uint32_t align = 0;       // 0 = natural
  uint32_t vector = 1;      // .v2, .v4
  uint32_t family = 0;      // %r<family>: that many registers; 0 = one
  uint64_t elements = 1;    // of an array, all dimensions; 0 for []
  bool external = false, visible = false, managed = false;
  std::vector<Operand> initial;  // names (of variables and functions, with offset in value) and numbers
  uint64_t bytes() const { return elements * bytes_of(type) * vector; }
};

struct Item {
  enum class Kind : uint8_t { instruction, label, open, close, declaration, targets };
  Kind kind;
  uint32_t index = 0;             // of the instruction, declaration or targets
  std::string_view name;          // label, targets
  uint32_t line = 0;
};

struct Targets {  // .branchtargets, .calltargets and .callprototype (then empty)
  std::vector<std::string_view> names;
};

struct FunctionSource {
  uint32_t line = 0;
  std::string_view name;
  bool entry = false, defined = false;
  std::vector<Declaration> results, parameters;
  std::array<uint32_t, 3> maximum{}, required{}, cluster{};
  std::vector<Item> items;
  std::vector<Instruction> instructions;
  std::vector<Declaration> declarations;
  std::vector<Targets> targets;
};

struct Source {
  unsigned version = 0, target = 0;
  bool target_specific = false;
  std::vector<Declaration> variables;   // of the module: global, constant and shared
  std::vector<FunctionSource> functions;
};

Source read(std::string_view text);  // throws Rejected

}  // namespace sim::ptx
