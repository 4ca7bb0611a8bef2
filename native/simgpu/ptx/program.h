// A module's PTX after reading, checking and translating: what can be launched and what must be placed in memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sim::exec {
struct Function;
}

namespace sim::ptx {

// The state space in which a variable of the module lives. Shared and local variables are part of the kernels.
enum class Space : uint8_t { global, constant };

struct Parameter {
  std::string name;
  uint32_t offset = 0, size = 0, align = 1;  // bytes, inside the parameter buffer
};

struct Kernel {
  std::string name;
  std::vector<Parameter> parameters;
  uint32_t parameter_bytes = 0;               // of the whole buffer
  uint32_t shared_bytes = 0;                  // static, per block
  uint32_t local_bytes = 0;                   // per thread, of the kernel and the deepest chain of known calls
  uint32_t registers = 0;                     // per thread, 32 bits each; an estimate of what hardware would need
  std::array<uint32_t, 3> required_block{};   // .reqntid; 0,0,0 when absent
  std::array<uint32_t, 3> required_cluster{};  // .reqnctapercluster; 0,0,0 when absent
  uint32_t max_threads = 0;                   // .maxntid or .reqntid multiplied; 0 when absent
  const exec::Function* code = nullptr;       // owned by the Program
};

// A place in a variable's initialiser that holds the address of a variable or function.
struct Reference {
  uint32_t offset = 0, bytes = 8;
  bool function = false;
  uint32_t index = 0;  // of the variable or function
  int64_t addend = 0;
};

struct Variable {
  std::string name;
  Space space = Space::global;
  uint64_t size = 0;
  uint32_t align = 1;
  bool managed = false;
  bool external = false;            // declared, defined in another module: there is no linker, so its address is 0
  bool visible = false;             // has a name outside the module; cuModuleGetGlobal finds all
  std::vector<std::byte> initial;   // may be shorter than `size`: the rest is zero
  std::vector<Reference> references;
};

// What is wrong with a text. The JIT error log shows `text` with `line`.
struct Problem {
  enum class Kind { invalid, unsupported_version };  // CUDA_ERROR_INVALID_PTX, …_UNSUPPORTED_PTX_VERSION
  Kind kind = Kind::invalid;
  uint32_t line = 0;  // counted from 1
  std::string text;
  // "ptx, line 12; error: …", as it appears in the log
  std::string message() const;
};

class Program {
 public:
  Program();
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  unsigned version = 0;       // 83 for ".version 8.3"
  unsigned target = 0;        // 90 for sm_90 and sm_90a
  bool target_specific = false;  // sm_90a: runs on that architecture only
  std::vector<Kernel> kernels;
  std::vector<Variable> variables;
  std::vector<std::unique_ptr<exec::Function>> functions;  // kernels too

  const Kernel* kernel(std::string_view name) const;  // or null
  // The contents of a variable once all variables have their addresses.
  std::vector<std::byte> contents(size_t variable, std::span<const uint64_t> addresses) const;
};

// Reads a whole PTX text (an ending zero byte is ignored) and translates every function. Null when there is a problem;
// then `problem` says what. Any text is safe. Needs no lock.
std::shared_ptr<const Program> parse(std::string_view text, Problem& problem);

}  // namespace sim::ptx
