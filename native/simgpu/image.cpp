#include "image.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>

#include "failure.h"
#include "fat_binary.h"

namespace sim {

namespace {

constexpr uint32_t elf_magic = 0x464c457f;
constexpr uint16_t elf_machine_cuda = 190;

uint32_t magic_of(const void* image) {
  uint32_t magic;
  std::memcpy(&magic, image, sizeof magic);
  return magic;
}

ProgramRef parsed(std::string_view text, std::string& log) {
  ptx::Problem problem;
  ProgramRef program = ptx::parse(text, problem);
  if (program) return program;
  log = problem.message();
  fail(problem.kind == ptx::Problem::Kind::unsupported_version ? CUDA_ERROR_UNSUPPORTED_PTX_VERSION
                                                               : CUDA_ERROR_INVALID_PTX);
}

bool looks_like_text(const char* text) {
  // Something printable, and a directive before anything binary.
  for (const char* at = text; *at != '\0'; ++at) {
    if (std::strncmp(at, ".version", 8) == 0) return true;
    auto byte = static_cast<unsigned char>(*at);
    if (byte < 32 && std::strchr("\t\n\v\f\r", *at) == nullptr) return false;
  }
  return false;
}

}  // namespace

std::string text_in(const void* image, unsigned architecture, std::string& log) {
  require(image != nullptr);
  if (is_fat_binary(image)) return text_for(entries_of(image), architecture, log);
  if (magic_of(image) == elf_magic) {
    uint16_t machine;
    std::memcpy(&machine, static_cast<const char*>(image) + 18, sizeof machine);
    fail(machine == elf_machine_cuda ? CUDA_ERROR_NO_BINARY_FOR_GPU : CUDA_ERROR_INVALID_IMAGE);
  }
  const char* text = static_cast<const char*>(image);
  require(looks_like_text(text), CUDA_ERROR_INVALID_IMAGE);
  return text;
}

ProgramRef read_image(const void* image, unsigned architecture, std::string& log) {
  return parsed(text_in(image, architecture, log), log);
}

JitLog::JitLog(unsigned count, const CUjit_option* options, void** values)
    : count_(count), options_(options), values_(values) {
  require(count == 0 || (options != nullptr && values != nullptr));
  for (unsigned i = 0; i < count; ++i) {
    require(options[i] >= 0 && options[i] < CU_JIT_NUM_OPTIONS);
    if (options[i] == CU_JIT_WALL_TIME) {
      float none = 0;
      std::memcpy(&values[i], &none, sizeof none);
    }
  }
}

void JitLog::info(const std::string& text) { put(text, CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES); }
void JitLog::error(const std::string& text) { put(text, CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES); }

void JitLog::put(const std::string& text, CUjit_option buffer, CUjit_option size) {
  char* to = nullptr;
  void** room = nullptr;
  for (unsigned i = 0; i < count_; ++i) {
    if (options_[i] == buffer) to = static_cast<char*>(values_[i]);
    if (options_[i] == size) room = &values_[i];
  }
  if (room == nullptr) return;
  size_t bytes = static_cast<unsigned>(reinterpret_cast<uintptr_t>(*room));
  size_t written = 0;
  if (to != nullptr && bytes != 0) {
    written = std::min(bytes - 1, text.size());
    std::memcpy(to, text.data(), written);
    to[written] = '\0';
  }
  *room = reinterpret_cast<void*>(static_cast<uintptr_t>(written));
}

ProgramRef read_image(const void* image, unsigned architecture, unsigned count, const CUjit_option* options,
                      void** values) {
  JitLog logs(count, options, values);
  std::string log;
  try {
    ProgramRef program = read_image(image, architecture, log);
    logs.info({});
    logs.error({});
    return program;
  } catch (const Failure&) {
    logs.info({});
    logs.error(log);
    throw;
  }
}

std::string file_contents(const char* path) {
  require(path != nullptr);
  std::ifstream file(path, std::ios::binary);
  require(file.good(), CUDA_ERROR_FILE_NOT_FOUND);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace sim
