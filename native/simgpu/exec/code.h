// A function translated from PTX: a list of operations, each of which works on the 32 lanes of a warp at once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sim::exec {

class Warp;
struct Op;
using Run = void (*)(Warp&, const Op&);

inline constexpr unsigned kLanes = 32;
inline constexpr uint32_t kAllLanes = 0xffffffffu;

// What an operation does to control flow; `plain` and `converged` ones have a Run function.
enum class Flow : uint8_t {
  plain,
  converged,     // *.sync: waits until the lanes that operand `a` names are here
  branch,        // to `target`
  branch_table,  // to tables[target][operand a]
  call,          // calls[target]
  leave,         // ret
  exit,
  barrier,       // of the block: `a` = number, `b` = threads or kNone, `c` = predicate or kNone
  arrive,
  warp_barrier,
  pause,         // lets other warps run
};

// Of ld, st, atom and their like: where the address points.
enum class Memory : uint8_t { generic, global, shared, local, frame, parameter };

// Operands are byte offsets: registers from 0 on, the function's constants below 0.
inline constexpr int32_t kNone = INT32_MIN;

struct Op {
  Run run = nullptr;
  Flow flow = Flow::plain;
  bool guard_negated = false;
  Memory memory = Memory::generic;
  uint8_t size = 0;          // bytes of one element in memory
  uint8_t count = 1;         // elements of a vector
  bool sign = false;         // extends its sign when the register is wider
  bool wide = false;         // the address register or the data register has 64 bits; see the operation
  uint8_t mode = 0;          // see the operation
  int32_t guard = kNone;     // predicate register
  int32_t d = kNone, a = kNone, b = kNone, c = kNone, e = kNone;
  int32_t more[3] = {kNone, kNone, kNone};  // data registers 1 to 3 of a vector
  uint32_t target = 0;
  int64_t immediate = 0;
  uint32_t line = 0;         // of the PTX
};

struct Constant {
  enum class Kind : uint8_t { value, variable, function };
  Kind kind = Kind::value;
  bool wide = false;   // 64 bits
  uint64_t bits = 0;   // value, or what is added to the address
  uint32_t index = 0;  // of the variable or function
  friend bool operator==(const Constant&, const Constant&) = default;
};
inline constexpr unsigned kConstantBytes = kLanes * 8;  // each constant's room

// A parameter or result of a function that is not a kernel: a place in the thread's frame.
struct Slot {
  uint32_t offset = 0, size = 0;
};

struct CallSite {
  bool indirect = false;
  uint32_t function = 0;       // when direct
  int32_t pointer = kNone;     // register, when indirect
  std::vector<Slot> arguments, results;  // in the caller's frame
};

enum class Builtin : uint8_t { none, vprintf, assertfail };

struct Function {
  std::string name;
  uint32_t index = 0;
  bool entry = false, defined = false;
  Builtin builtin = Builtin::none;
  std::vector<Op> ops;                        // always ends with leave or exit
  std::vector<Constant> constants;
  std::vector<std::vector<uint32_t>> tables;  // of branch_table
  std::vector<CallSite> calls;
  std::vector<Slot> parameters, results;
  uint32_t register_bytes = 0;                // of a warp
  uint32_t frame_bytes = 0;                   // of a thread's stack
};

}  // namespace sim::exec
