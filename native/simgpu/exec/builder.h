// Translates one function: names to registers, constants and places, instructions to operations.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "exec/code.h"
#include "ptx/program.h"
#include "ptx/source.h"

namespace sim::exec {

using ptx::Operand;
using ptx::Type;

// The names of a module, known before any function is translated.
struct Names {
  struct Shared {
    bool dynamic = false;
    uint32_t offset = 0;
  };
  std::unordered_map<std::string_view, uint32_t> variables;  // global and constant, index in Program::variables
  std::unordered_map<std::string_view, uint32_t> functions;
  std::unordered_map<std::string_view, Shared> shared;
  std::unordered_map<const ptx::Declaration*, uint32_t> inner_shared;  // of functions that are not kernels: offsets
  const ptx::Source* source = nullptr;
  uint32_t shared_bytes = 0;  // of the module's shared variables
};

class Builder {
 public:
  Builder(const Names& names, const ptx::FunctionSource& source, Function& out);
  void translate();
  void declare_only();  // of a function without a body: where its parameters lie
  uint32_t shared_bytes() const { return shared_bytes_; }

  // The instruction at hand; its words after the first, taken one by one.
  const ptx::Instruction& instruction() const { return *now_; }
  bool take(std::string_view word);
  bool take_any(std::initializer_list<std::string_view> words) {
    for (const auto word : words)
      if (take(word)) return true;
    return false;
  }
  Type take_type();                      // the next word must be one
  std::string_view peek() const;         // empty after the last
  void done();                           // nothing may be left
  size_t operands() const { return now_->operands.size(); }
  const Operand& operand(size_t i) const;  // rejects when missing
  void expect_operands(size_t least, size_t most);
  [[noreturn]] void reject(const std::string& what) const;

  // Places of operands. The register must have the type's size.
  int32_t read(const Operand& operand, Type type);
  int32_t write(const Operand& operand, Type type);
  int32_t read_predicate(const Operand& operand);
  int32_t write_predicate(std::string_view name);
  // Registers at least as wide as the type (ld, st, cvt); tells how wide.
  int32_t read_wider(const Operand& operand, Type type, bool& wide);
  int32_t write_wider(const Operand& operand, Type type, bool& wide);
  int32_t constant(const Constant& constant);
  int32_t constant32(uint32_t value) { return constant({Constant::Kind::value, false, value, 0}); }
  int32_t constant64(uint64_t value) { return constant({Constant::Kind::value, true, value, 0}); }
  int32_t temporary(unsigned bytes);     // a register without a name
  // Sets a, immediate, wide and, for parameters and local variables, memory.
  void address(Op& op, const Operand& operand);
  Slot parameter_place(const Operand& operand, bool& found);  // a .param variable in the frame
  int32_t carry() {  // the condition code, one predicate per function
    if (carry_ == kNone) carry_ = temporary(0);
    return carry_;
  }
  uint32_t label(std::string_view name) const;
  const ptx::Targets* targets(std::string_view name) const;
  const Names& names() const { return names_; }
  Function& function() { return out_; }
  bool entry() const { return source_.entry; }
  const ptx::FunctionSource& source() const { return source_; }

  // A new operation with the instruction's guard and line.
  Op& emit(Run run);
  Op& add(Op op);  // one that is filled already; references into the function's list do not survive the next addition
  Op& flow(Flow flow);

 private:
  struct Symbol {
    enum class Kind : uint8_t { reg, local, parameter, kernel_parameter, shared } kind = Kind::reg;
    Type type = Type::none;
    int32_t place = kNone;      // register offset, assigned at first use; otherwise offset in the space
    uint32_t size = 0;
    bool dynamic = false;
  };
  struct Family {
    std::string_view prefix;
    uint32_t count;
    Type type;
  };
  struct Scope {
    uint32_t number = 0;
    std::unordered_map<std::string, Symbol> symbols;
    std::vector<Family> families;
  };

  void declare(const ptx::Declaration& declaration);
  void declare_parameters();
  void find_labels();
  Symbol* find(std::string_view name);
  Symbol& register_named(std::string_view name);
  uint32_t frame_room(uint64_t size, uint32_t align);
  int32_t register_room(unsigned bytes);
  int32_t address_of(std::string_view name, uint64_t offset, bool wide);
  int32_t immediate(const Operand& operand, Type type);
  int32_t special(std::string_view name, bool wide);

  const Names& names_;
  const ptx::FunctionSource& source_;
  Function& out_;
  const ptx::Instruction* now_ = nullptr;
  size_t word_ = 0;
  int32_t guard_ = kNone, carry_ = kNone;
  std::vector<Scope> scopes_;
  std::map<std::pair<uint32_t, std::string_view>, uint32_t> labels_;  // scope and name to item
  std::map<std::pair<uint32_t, std::string_view>, uint32_t> target_lists_;
  std::vector<uint32_t> op_of_item_;
  std::vector<int32_t> parents_;      // of scopes
  uint32_t shared_bytes_ = 0;
};

using Translate = void (*)(Builder&);
// The function that translates instructions whose first word is this; null when there is none.
Translate translator(std::string_view word);

// Adds an instruction to what translator() knows, before main.
struct Instructions {
  Instructions(std::initializer_list<std::pair<std::string_view, Translate>> list);
};

// The operation that reads a special register such as %tid.x; null when there is none. `wide`: it has 64 bits.
Run special_register(std::string_view name, bool& wide);

}  // namespace sim::exec
