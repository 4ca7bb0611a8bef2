// Libraries and their kernels.
#include "entry.h"
#include "image.h"

using namespace sim;

namespace {

std::shared_ptr<Library> named(CUlibrary handle) {
  return process().libraries.find(handle, CUDA_ERROR_INVALID_HANDLE);
}

std::shared_ptr<Kernel> named(CUkernel handle) { return process().kernels.find(handle, CUDA_ERROR_INVALID_HANDLE); }

// The newest architecture among the devices: a library is for all of them.
unsigned newest_architecture() {
  std::lock_guard lock(process().mutex);
  unsigned newest = 0;
  for (const auto& device : process().devices)
    newest = std::max(newest, static_cast<unsigned>(device->spec.major * 10 + device->spec.minor));
  return newest;
}

void load(CUlibrary* out, const void* image, unsigned count, const CUjit_option* options, void** values,
          const CUlibraryOption* library_options, unsigned library_count) {
  require(out != nullptr && image != nullptr && (library_options != nullptr || library_count == 0));
  for (unsigned i = 0; i < library_count; ++i)
    require(library_options[i] >= 0 && library_options[i] < CU_LIBRARY_NUM_OPTIONS);
  ProgramRef program = read_image(image, newest_architecture(), count, options, values);
  Section section;
  auto library = std::make_shared<Library>();
  library->program = std::move(program);
  for (const ptx::Kernel& each : library->program->kernels) {
    auto kernel = std::make_shared<Kernel>(*library, each);
    process().kernels.add(kernel);
    library->kernels[each.name] = std::move(kernel);
  }
  *out = library->handle();
  process().libraries.add(std::move(library));
}

void global(CUdeviceptr* address, size_t* bytes, CUlibrary handle, const char* name, bool managed) {
  require((address != nullptr || bytes != nullptr) && name != nullptr);
  std::shared_ptr<Library> library = named(handle);
  std::shared_ptr<Module> module = library->in(*current_context());
  AllocationRef found = variable(*module->code, name);
  require(found != nullptr, CUDA_ERROR_NOT_FOUND);
  for (const auto& each : library->program->variables)
    if (each.name == name) require(!managed || each.managed, CUDA_ERROR_NOT_FOUND);
  if (address != nullptr) *address = found->base;
  if (bytes != nullptr) *bytes = found->size;
}

const Device& device_of(CUdevice ordinal) { return process().device(ordinal); }

}  // namespace

SIM_API(cuLibraryLoadData, wait,
        (CUlibrary* out, const void* image, CUjit_option* options, void** values, unsigned count,
         CUlibraryOption* library_options, void** library_values, unsigned library_count),
        (out, image, options, values, count, library_options, library_values, library_count)) {
  require(library_values != nullptr || library_count == 0);
  load(out, image, count, options, values, library_options, library_count);
}

SIM_API(cuLibraryLoadFromFile, wait,
        (CUlibrary* out, const char* path, CUjit_option* options, void** values, unsigned count,
         CUlibraryOption* library_options, void** library_values, unsigned library_count),
        (out, path, options, values, count, library_options, library_values, library_count)) {
  require(library_values != nullptr || library_count == 0);
  std::string image = file_contents(path);
  require(image.size() >= 4, CUDA_ERROR_INVALID_IMAGE);
  load(out, image.c_str(), count, options, values, library_options, library_count);
}

SIM_API(cuLibraryUnload, wait, (CUlibrary handle), (handle)) {
  std::vector<Ticket> tickets;
  {
    Section section;
    for (const auto& [context, module] : named(handle)->modules)
      for (Ticket& ticket : context->everything()) tickets.push_back(std::move(ticket));
  }
  wait_all(tickets);
  Section section;
  std::shared_ptr<Library> library = named(handle);
  for (const auto& [context, module] : library->modules) module->unload();
  for (const auto& [name, kernel] : library->kernels)
    process().kernels.remove(kernel->handle(), CUDA_ERROR_INVALID_HANDLE);
  process().libraries.remove(handle, CUDA_ERROR_INVALID_HANDLE);
}

SIM_API(cuLibraryGetKernel, query, (CUkernel* out, CUlibrary handle, const char* name), (out, handle, name)) {
  require(out != nullptr && name != nullptr);
  std::shared_ptr<Library> library = named(handle);
  auto found = library->kernels.find(name);
  require(found != library->kernels.end(), CUDA_ERROR_NOT_FOUND);
  *out = found->second->handle();
}

SIM_API(cuLibraryGetKernelCount, query, (unsigned* out, CUlibrary handle), (out, handle)) {
  require(out != nullptr);
  *out = static_cast<unsigned>(named(handle)->kernels.size());
}

SIM_API(cuLibraryEnumerateKernels, query, (CUkernel* out, unsigned room, CUlibrary handle), (out, room, handle)) {
  require(out != nullptr);
  std::shared_ptr<Library> library = named(handle);
  for (const auto& [name, kernel] : library->kernels) {
    if (room-- == 0) return;
    *out++ = kernel->handle();
  }
}

SIM_API(cuLibraryGetModule, change, (CUmodule* out, CUlibrary handle), (out, handle)) {
  require(out != nullptr);
  *out = named(handle)->in(*current_context())->handle();
}

SIM_API(cuLibraryGetGlobal, change, (CUdeviceptr* address, size_t* bytes, CUlibrary handle, const char* name),
        (address, bytes, handle, name)) {
  global(address, bytes, handle, name, false);
}

SIM_API(cuLibraryGetManaged, change, (CUdeviceptr* address, size_t* bytes, CUlibrary handle, const char* name),
        (address, bytes, handle, name)) {
  global(address, bytes, handle, name, true);
}

SIM_API(cuKernelGetFunction, change, (CUfunction* out, CUkernel handle), (out, handle)) {
  require(out != nullptr);
  *out = named(handle)->in(*current_context())->handle();
}

SIM_API(cuKernelGetLibrary, query, (CUlibrary* out, CUkernel handle), (out, handle)) {
  require(out != nullptr);
  *out = named(handle)->library.handle();
}

SIM_API(cuKernelGetName, query, (const char** out, CUkernel handle), (out, handle)) {
  require(out != nullptr);
  *out = named(handle)->kernel.name.c_str();
}

SIM_API(cuKernelGetParamInfo, query, (CUkernel handle, size_t index, size_t* offset, size_t* size),
        (handle, index, offset, size)) {
  const auto& parameters = named(handle)->kernel.parameters;
  require(offset != nullptr && index < parameters.size());
  *offset = parameters[index].offset;
  if (size != nullptr) *size = parameters[index].size;
}

SIM_API(cuKernelGetAttribute, query, (int* out, CUfunction_attribute attribute, CUkernel handle, CUdevice ordinal),
        (out, attribute, handle, ordinal)) {
  require(out != nullptr);
  std::shared_ptr<Kernel> kernel = named(handle);
  *out = kernel_attribute(kernel->kernel, *kernel->library.program, kernel->settings[ordinal], device_of(ordinal),
                          attribute);
}

SIM_API(cuKernelSetAttribute, change, (CUfunction_attribute attribute, int value, CUkernel handle, CUdevice ordinal),
        (attribute, value, handle, ordinal)) {
  std::shared_ptr<Kernel> kernel = named(handle);
  const Device& device = device_of(ordinal);
  set_attribute(kernel->settings[ordinal], kernel->kernel, attribute, value);
  for (const auto& [context, module] : kernel->library.modules)
    if (&context->device == &device)
      set_attribute(module->functions[kernel->kernel.name]->settings, kernel->kernel, attribute, value);
}

SIM_API(cuKernelSetCacheConfig, change, (CUkernel handle, CUfunc_cache config, CUdevice ordinal),
        (handle, config, ordinal)) {
  named(handle);
  device_of(ordinal);
  require(config >= CU_FUNC_CACHE_PREFER_NONE && config <= CU_FUNC_CACHE_PREFER_EQUAL);
}
