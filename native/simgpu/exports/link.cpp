// The linker. Inputs are PTX texts, plain or in fat binaries; what comes out is one text, which is translated when it is
// loaded as a module.
#include <cstring>

#include "entry.h"
#include "image.h"
#include "linker.h"
#include "ptx/join.h"

using namespace sim;

namespace {

std::shared_ptr<Linker> named(CUlinkState handle) {
  return process().linkers.find(handle, CUDA_ERROR_INVALID_HANDLE);
}

unsigned count_of(const Linker& linker) { return static_cast<unsigned>(linker.options.size()); }

// Every call has the whole room for its logs.
void empty_logs(Linker& linker) {
  for (size_t i = 0; i < linker.options.size(); ++i)
    if (linker.options[i] == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES || linker.options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
      linker.values[i] = linker.given[i];
}

void create(unsigned count, const CUjit_option* options, void** values, CUlinkState* out) {
  require(out != nullptr);
  current_context();
  JitLog(count, options, values);
  auto linker = std::make_shared<Linker>();
  if (count != 0) {
    linker->options.assign(options, options + count);
    linker->values = values;
    linker->given.assign(values, values + count);
  }
  *out = process().linkers.add(std::move(linker));
}

void add(CUlinkState handle, CUjitInputType type, const void* data, size_t size) {
  std::shared_ptr<Linker> linker = named(handle);
  require(data != nullptr && size != 0);
  require(type != CU_JIT_INPUT_CUBIN, CUDA_ERROR_NO_BINARY_FOR_GPU);
  require(type == CU_JIT_INPUT_PTX || type == CU_JIT_INPUT_FATBINARY, CUDA_ERROR_NOT_SUPPORTED);
  const std::string image(static_cast<const char*>(data), size);
  const DeviceSpec& spec = current_context()->device.spec;
  const auto architecture = static_cast<unsigned>(spec.major * 10 + spec.minor);
  empty_logs(*linker);
  // Read as a module would be: what is wrong inside a text is reported here, with its own lines.
  read_image(image.c_str(), architecture, count_of(*linker), linker->options.data(), linker->values);
  std::string log;
  linker->texts.push_back(text_in(image.c_str(), architecture, log));
}

void complete(Linker& linker) {
  require(!linker.texts.empty(), CUDA_ERROR_INVALID_IMAGE);
  ptx::Problem problem;
  linker.image = linker.texts.size() == 1 ? linker.texts.front() : ptx::join(linker.texts, problem);
  empty_logs(linker);
  JitLog log(count_of(linker), linker.options.data(), linker.values);
  log.info({});
  log.error(linker.image.empty() ? "error: " + problem.text : std::string());
  require(!linker.image.empty(), CUDA_ERROR_INVALID_IMAGE);
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
  complete(*linker);
  *out = linker->image.data();
  if (size != nullptr) *size = linker->image.size() + 1;
}

SIM_API(cuLinkDestroy, change, (CUlinkState handle), (handle)) {
  process().linkers.remove(handle, CUDA_ERROR_INVALID_HANDLE);
}
