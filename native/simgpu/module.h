// Modules: programs placed in the memory of a context; libraries: programs that every context gets a module of.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "abi.h"
#include "address_map.h"
#include "exec/launch.h"
#include "ptx/program.h"

namespace sim {

class Context;
class Module;
struct Device;
struct Library;
struct Process;

using ProgramRef = std::shared_ptr<const ptx::Program>;

// What runs: the program, its variables' memory. Work keeps it alive.
struct Code {
  Code(ProgramRef program, std::vector<AllocationRef> placed, std::vector<uint64_t> addresses)
      : variables(std::move(placed)), image(std::move(program), std::move(addresses)) {}
  const std::vector<AllocationRef> variables;  // null for those that are external
  const exec::Image image;
};

// What a program may set of a kernel.
struct KernelSettings {
  int dynamic_shared = -1;  // bytes; -1: what is left of 48 KiB
  int carveout = -1;        // percent; -1: no preference
  int scheduling = 0;       // CUclusterSchedulingPolicy
  bool large_clusters = false;
};

// A kernel in a module. Dies with the module; a launch under way keeps `code`.
struct Function {
  Function(Module& in, const ptx::Kernel& of);
  CUfunction handle() { return reinterpret_cast<CUfunction>(this); }

  const std::weak_ptr<Module> module;
  const std::shared_ptr<const Code> code;
  const ptx::Kernel& kernel;
  Context& context;
  KernelSettings settings;

  // Bytes of shared memory that a launch may ask for, besides the static ones.
  unsigned dynamic_shared_limit() const;
  unsigned max_threads() const;  // of a block
};

class Module : public std::enable_shared_from_this<Module> {
 public:
  CUmodule handle() { return reinterpret_cast<CUmodule>(this); }

  Context& context;
  Library* const library;  // null: loaded by itself
  std::shared_ptr<const Code> code;
  std::map<std::string, std::shared_ptr<Function>, std::less<>> functions;

  // Places the variables and registers module and functions. Throws CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_INVALID_PTX
  // when the program is for another architecture.
  static std::shared_ptr<Module> place(ProgramRef program, Context& context, Library* library);
  void unload();

  Module(Context& in, Library* of) : context(in), library(of) {}
};

// A kernel of a library: a function in whichever context is current.
struct Kernel {
  Kernel(Library& in, const ptx::Kernel& of) : library(in), kernel(of) {}
  CUkernel handle() { return reinterpret_cast<CUkernel>(this); }

  Library& library;
  const ptx::Kernel& kernel;
  std::map<int, KernelSettings> settings;  // by device

  std::shared_ptr<Function> in(Context& context);
};

struct Library {
  CUlibrary handle() { return reinterpret_cast<CUlibrary>(this); }

  ProgramRef program;
  std::map<std::string, std::shared_ptr<Kernel>, std::less<>> kernels;
  std::map<Context*, std::shared_ptr<Module>> modules;

  std::shared_ptr<Module> in(Context& context);  // placed there when it is not yet
};

// The function of that handle. Throws CUDA_ERROR_INVALID_HANDLE.
std::shared_ptr<Function> function_of(CUfunction handle);
// The same for calls that a thread without a current context may make, as an H200's driver takes them.
std::shared_ptr<Function> function_anywhere(CUfunction handle);
// The same where a kernel's handle serves too: the function that it is in the current context.
std::shared_ptr<Function> launchable_of(CUfunction handle);

// The memory of a program's variable; null when it has no such variable.
AllocationRef variable(const Code& code, std::string_view name);

// Modules, and what libraries have in it, of a context that ends.
void unload_all(Context& context);

// Static shared memory as the driver counts it.
unsigned static_shared(const ptx::Kernel& kernel);

// How much fits: what occupancy and attributes are computed from.
int function_attribute(const Function& function, CUfunction_attribute attribute);
int kernel_attribute(const ptx::Kernel& kernel, const ptx::Program& program, const KernelSettings& settings,
                     const Device& device, CUfunction_attribute attribute);
void set_attribute(KernelSettings& settings, const ptx::Kernel& kernel, CUfunction_attribute attribute, int value);

constexpr unsigned shared_by_default = 48u << 10;     // bytes of a block, static and dynamic
constexpr unsigned shared_at_most = 227u << 10;       // when asked for
constexpr unsigned shared_of_processor = 228u << 10;  // of a multiprocessor
constexpr unsigned shared_reserved = 1u << 10;        // of each block, for the driver
constexpr unsigned threads_of_processor = 2048, blocks_of_processor = 32, registers_of_processor = 65536;
constexpr unsigned threads_of_block = 1024;

}  // namespace sim
