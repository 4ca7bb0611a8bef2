// Modules.
#include "entry.h"
#include "image.h"

using namespace sim;

namespace {

std::shared_ptr<Module> named(CUmodule handle) { return process().modules.find(handle, CUDA_ERROR_INVALID_HANDLE); }

// Reading takes its time and needs no lock.
void load(CUmodule* out, const void* image, unsigned count, const CUjit_option* options, void** values) {
  unsigned architecture;
  {
    Section section;
    require(out != nullptr && image != nullptr);
    const DeviceSpec& spec = current_context()->device.spec;
    architecture = static_cast<unsigned>(spec.major * 10 + spec.minor);
  }
  ProgramRef program = read_image(image, architecture, count, options, values);
  Section section;
  *out = Module::place(std::move(program), *current_context(), nullptr)->handle();
}

void global(CUdeviceptr* address, size_t* bytes, CUmodule handle, const char* name) {
  require((address != nullptr || bytes != nullptr) && name != nullptr);
  current_context();
  AllocationRef found = variable(*named(handle)->code, name);
  require(found != nullptr, CUDA_ERROR_NOT_FOUND);
  if (address != nullptr) *address = found->base;
  if (bytes != nullptr) *bytes = found->size;
}

}  // namespace

SIM_API(cuModuleLoadData, wait, (CUmodule* out, const void* image), (out, image)) {
  load(out, image, 0, nullptr, nullptr);
}

SIM_API(cuModuleLoadDataEx, wait,
        (CUmodule* out, const void* image, unsigned count, CUjit_option* options, void** values),
        (out, image, count, options, values)) {
  load(out, image, count, options, values);
}

SIM_API(cuModuleLoadFatBinary, wait, (CUmodule* out, const void* image), (out, image)) {
  load(out, image, 0, nullptr, nullptr);
}

SIM_API(cuModuleLoad, wait, (CUmodule* out, const char* path), (out, path)) {
  std::string image = file_contents(path);
  require(image.size() >= 4, CUDA_ERROR_INVALID_IMAGE);
  load(out, image.c_str(), 0, nullptr, nullptr);
}

// What is under way keeps the code that it runs.
SIM_API(cuModuleUnload, wait, (CUmodule handle), (handle)) {
  std::vector<Ticket> tickets;
  {
    Section section;
    current_context();
    tickets = named(handle)->context.everything();
  }
  wait_all(tickets);
  Section section;
  std::shared_ptr<Module> module = named(handle);
  require(module->library == nullptr, CUDA_ERROR_NOT_PERMITTED);
  module->unload();
}

SIM_API(cuModuleGetFunction, query, (CUfunction* out, CUmodule handle, const char* name), (out, handle, name)) {
  require(out != nullptr && name != nullptr);
  current_context();
  std::shared_ptr<Module> module = named(handle);
  auto found = module->functions.find(name);
  require(found != module->functions.end(), CUDA_ERROR_NOT_FOUND);
  *out = found->second->handle();
}

SIM_API(cuModuleGetFunctionCount, query, (unsigned* out, CUmodule handle), (out, handle)) {
  require(out != nullptr);
  *out = static_cast<unsigned>(named(handle)->functions.size());
}

SIM_API(cuModuleEnumerateFunctions, query, (CUfunction* out, unsigned room, CUmodule handle), (out, room, handle)) {
  require(out != nullptr);
  std::shared_ptr<Module> module = named(handle);
  for (const auto& [name, function] : module->functions) {
    if (room-- == 0) return;
    *out++ = function->handle();
  }
}

SIM_API(cuModuleGetGlobal_v2, query, (CUdeviceptr* address, size_t* bytes, CUmodule handle, const char* name),
        (address, bytes, handle, name)) {
  global(address, bytes, handle, name);
}

SIM_API(cuModuleGetLoadingMode, query, (CUmoduleLoadingMode* mode), (mode)) {
  require(mode != nullptr);
  *mode = CU_MODULE_LAZY_LOADING;
}
