// The linker. It takes one PTX text, or a fat binary with one, and hands it out again: there is nothing to translate
// before the module is loaded. Several texts would have to be joined, which is not supported.
#include <cstring>

#include "entry.h"
#include "image.h"
#include "linker.h"

using namespace sim;

namespace {

std::shared_ptr<Linker> named(CUlinkState handle) {
  return process().linkers.find(handle, CUDA_ERROR_INVALID_HANDLE);
}

void create(unsigned count, const CUjit_option* options, void** values, CUlinkState* out) {
  require(out != nullptr);
  current_context();
  auto linker = std::make_shared<Linker>();
  JitLog(count, options, values);
  if (count != 0) {
    linker->options.assign(options, options + count);
    linker->values = values;
  }
  *out = process().linkers.add(std::move(linker));
}

void add(CUlinkState handle, CUjitInputType type, const void* data, size_t size) {
  std::shared_ptr<Linker> linker = named(handle);
  require(data != nullptr && size != 0);
  require(type != CU_JIT_INPUT_CUBIN, CUDA_ERROR_NO_BINARY_FOR_GPU);
  require(type == CU_JIT_INPUT_PTX || type == CU_JIT_INPUT_FATBINARY, CUDA_ERROR_NOT_SUPPORTED);
  require(linker->image.empty(), CUDA_ERROR_NOT_SUPPORTED);
  std::string image(static_cast<const char*>(data), size);
  auto count = static_cast<unsigned>(linker->options.size());
  const DeviceSpec& spec = current_context()->device.spec;
  read_image(image.c_str(), static_cast<unsigned>(spec.major * 10 + spec.minor), count, linker->options.data(),
             linker->values);
  linker->image = std::move(image);
}

void add_file(CUlinkState handle, CUjitInputType type, const char* path) {
  std::string contents = file_contents(path);
  add(handle, type, contents.data(), contents.size());
}

}  // namespace

SIM_API(cuLinkCreate_v2, change, (unsigned count, CUjit_option* options, void** values, CUlinkState* out),
        (count, options, values, out)) {
  create(count, options, values, out);
}

SIM_API(cuLinkAddData_v2, change,
        (CUlinkState handle, CUjitInputType type, void* data, size_t size, const char*, unsigned, CUjit_option*,
         void**),
        (handle, type, data, size, nullptr, 0u, nullptr, nullptr)) {
  add(handle, type, data, size);
}

SIM_API(cuLinkAddFile_v2, change,
        (CUlinkState handle, CUjitInputType type, const char* path, unsigned, CUjit_option*, void**),
        (handle, type, path, 0u, nullptr, nullptr)) {
  add_file(handle, type, path);
}

SIM_API(cuLinkComplete, change, (CUlinkState handle, void** out, size_t* size), (handle, out, size)) {
  require(out != nullptr);
  std::shared_ptr<Linker> linker = named(handle);
  require(!linker->image.empty(), CUDA_ERROR_INVALID_IMAGE);
  *out = linker->image.data();
  if (size != nullptr) *size = linker->image.size() + 1;
}

SIM_API(cuLinkDestroy, change, (CUlinkState handle), (handle)) {
  process().linkers.remove(handle, CUDA_ERROR_INVALID_HANDLE);
}
