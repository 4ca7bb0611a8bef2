// Runs a kernel's grid on the CPU.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ptx/program.h"

namespace sim::exec {

// A program whose variables have addresses: what one loaded module is. Immutable; any number of launches may use it.
class Image {
 public:
  // `addresses[i]` is where Program::variables[i] lies.
  Image(std::shared_ptr<const ptx::Program> program, std::vector<uint64_t> addresses);
  ~Image();
  Image(const Image&) = delete;
  Image& operator=(const Image&) = delete;

  const ptx::Program& program() const { return *program_; }
  const std::vector<uint64_t>& addresses() const { return addresses_; }
  // The operands of a function that do not change, 32 lanes of each; negative operand offsets point into them.
  const std::byte* constants(size_t function) const;

 private:
  struct Lanes;
  std::shared_ptr<const ptx::Program> program_;
  std::vector<uint64_t> addresses_;
  std::vector<Lanes> constants_;
};

// Which memory a kernel may touch. Called from all threads of a launch at once; answers are kept for the whole launch,
// so a range must stay valid until it ends.
class MemoryCheck {
 public:
  struct Range {
    uint64_t base = 0, size = 0;
    bool writable = true;
  };
  virtual ~MemoryCheck() = default;
  // The largest known range around `address`; false when there is none (an illegal address).
  virtual bool find(uint64_t address, Range& out) = 0;
};

// Where printf of a kernel writes. Called from all threads of a launch at once, one call per printf.
class PrintSink {
 public:
  virtual ~PrintSink() = default;
  virtual void print(std::string_view text) = 0;
};

struct Fault {
  enum class Kind {
    none,
    illegal_address,      // CUDA_ERROR_ILLEGAL_ADDRESS
    misaligned_address,   // CUDA_ERROR_MISALIGNED_ADDRESS
    invalid_space,        // CUDA_ERROR_INVALID_ADDRESS_SPACE
    invalid_pc,           // CUDA_ERROR_INVALID_PC: an indirect call of what is no function
    stack_error,          // recursion beyond the stack
    illegal_instruction,  // CUDA_ERROR_ILLEGAL_INSTRUCTION
    trap,                 // CUDA_ERROR_LAUNCH_FAILED
    assertion,            // CUDA_ERROR_ASSERT; the message is what the device prints
    cancelled,            // Launch::cancel became true
    out_of_memory,        // the CPU has no memory for the grid's own state
  };
  Kind kind = Kind::none;
  std::string message;  // for people: kernel, block, thread, line of the PTX
  explicit operator bool() const { return kind != Kind::none; }
};

struct Launch {
  std::array<uint32_t, 3> grid{1, 1, 1}, block{1, 1, 1}, cluster{1, 1, 1};
  uint32_t dynamic_shared = 0;            // bytes
  const std::byte* parameters = nullptr;  // Kernel::parameter_bytes of them
  MemoryCheck* memory = nullptr;          // never null
  PrintSink* printer = nullptr;           // null: printed text is lost
  const std::atomic<bool>* cancel = nullptr;
  bool cooperative = false;               // all blocks at once, so that they can wait for each other
  unsigned workers = 0;                   // threads, the caller's included; 0 = one per processor
  uint32_t stack_bytes = 1024;            // per thread for calls whose depth is not known (CU_LIMIT_STACK_SIZE)
  uint32_t grid_number = 0;               // %gridid
};

// Executes the whole grid and returns when it is done. Blocks start in ascending order. Dimensions must have been
// checked (each ≥ 1, at most 1024 threads in a block).
Fault run(const Image& image, const ptx::Kernel& kernel, const Launch& launch);

}  // namespace sim::exec
