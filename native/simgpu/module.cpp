#include "module.h"

#include <algorithm>
#include <cstring>

#include "failure.h"
#include "linear.h"
#include "process.h"

namespace sim {

namespace {

AllocationRef place_variable(const ptx::Variable& variable, Context& context) {
  if (variable.external) return nullptr;
  uint64_t size = std::max<uint64_t>(variable.size, 1);
  if (variable.managed) return make_reachable(process(), Kind::managed, context, size, CU_MEM_ATTACH_GLOBAL);
  AllocationRef made = make_linear(process(), Kind::variable, context.device, &context, size);
  made->constant = variable.space == ptx::Space::constant;
  return made;
}

void withdraw(const std::vector<AllocationRef>& variables) {
  for (const AllocationRef& each : variables)
    if (each) process().memory.remove(each->base);
}

void check_architecture(const ptx::Program& program, const Device& device) {
  unsigned have = static_cast<unsigned>(device.spec.major * 10 + device.spec.minor);
  require(program.target_specific ? program.target == have : program.target <= have, CUDA_ERROR_INVALID_PTX);
}

}  // namespace

Function::Function(Module& in, const ptx::Kernel& of)
    : module(in.weak_from_this()), code(in.code), kernel(of), context(in.context) {}

unsigned Function::dynamic_shared_limit() const {
  if (settings.dynamic_shared >= 0) return static_cast<unsigned>(settings.dynamic_shared);
  return static_shared(kernel) < shared_by_default ? shared_by_default - static_shared(kernel) : 0;
}

unsigned Function::max_threads() const {
  return static_cast<unsigned>(function_attribute(*this, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
}

std::shared_ptr<Module> Module::place(ProgramRef program, Context& context, Library* library) {
  check_architecture(*program, context.device);
  auto module = std::make_shared<Module>(context, library);
  std::vector<AllocationRef> placed;
  std::vector<uint64_t> addresses;
  try {
    for (const ptx::Variable& variable : program->variables) {
      placed.push_back(place_variable(variable, context));
      addresses.push_back(placed.back() ? placed.back()->base : 0);
    }
  } catch (...) {
    withdraw(placed);
    throw;
  }
  for (size_t i = 0; i < placed.size(); ++i) {
    if (!placed[i]) continue;
    std::vector<std::byte> bytes = program->contents(i, addresses);
    std::memcpy(reinterpret_cast<void*>(addresses[i]), bytes.data(), bytes.size());
  }
  module->code = std::make_shared<Code>(program, std::move(placed), std::move(addresses));
  for (const ptx::Kernel& kernel : program->kernels) {
    auto function = std::make_shared<Function>(*module, kernel);
    process().functions.add(function);
    module->functions[kernel.name] = std::move(function);
  }
  process().modules.add(module);
  return module;
}

void Module::unload() {
  withdraw(code->variables);
  for (const auto& [name, function] : functions)
    process().functions.remove(function->handle(), CUDA_ERROR_INVALID_HANDLE);
  functions.clear();
  process().modules.remove(handle(), CUDA_ERROR_INVALID_HANDLE);
}

std::shared_ptr<Module> Library::in(Context& context) {
  auto& module = modules[&context];
  if (module) return module;
  try {
    module = Module::place(program, context, this);
  } catch (...) {
    modules.erase(&context);
    throw;
  }
  for (const auto& [name, kernel] : kernels) {
    auto set = kernel->settings.find(context.device.ordinal);
    if (set != kernel->settings.end()) module->functions[name]->settings = set->second;
  }
  return module;
}

std::shared_ptr<Function> Kernel::in(Context& context) {
  return library.in(context)->functions.find(kernel.name)->second;
}

std::shared_ptr<Function> function_of(CUfunction handle) {
  current_context();
  return process().functions.find(handle, CUDA_ERROR_INVALID_HANDLE);
}

std::shared_ptr<Function> function_anywhere(CUfunction handle) {
  const auto& stack = context_stack();
  if (!stack.empty() && stack.back()) current_context();
  return process().functions.find(handle, CUDA_ERROR_INVALID_HANDLE);
}

std::shared_ptr<Function> launchable_of(CUfunction handle) {
  std::shared_ptr<Context> context = current_context();
  auto kernel = process().kernels.look(reinterpret_cast<CUkernel>(handle));
  return kernel ? kernel->in(*context) : function_of(handle);
}

AllocationRef variable(const Code& code, std::string_view name) {
  const auto& variables = code.image.program().variables;
  for (size_t i = 0; i < variables.size(); ++i)
    if (variables[i].name == name) return code.variables[i];
  return nullptr;
}

void unload_all(Context& context) {
  for (const auto& library : process().libraries.all()) library->modules.erase(&context);
  for (const auto& module : process().modules.all())
    if (&module->context == &context) module->unload();
}

}  // namespace sim
