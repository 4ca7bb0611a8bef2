// What a program hands over as a module: PTX text, or a fat binary with PTX in it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "config.h"
#include "module.h"

namespace sim {

// The program in `image`. Throws CUDA_ERROR_INVALID_IMAGE for what is nothing we know, CUDA_ERROR_NO_BINARY_FOR_GPU for
// code without PTX that fits, CUDA_ERROR_INVALID_PTX and CUDA_ERROR_UNSUPPORTED_PTX_VERSION for text that cannot be
// read: then `log` says why. Takes no lock. `architecture` is 90 for 9.0; 0 takes the newest PTX there is.
ProgramRef read_image(const void* image, unsigned architecture, std::string& log);

// The text in `image`, unpacked but not read. Throws as `read_image` does.
std::string text_in(const void* image, unsigned architecture, std::string& log);

// Options of the just-in-time compiler: where logs go.
class JitLog {
 public:
  // Throws CUDA_ERROR_INVALID_VALUE.
  JitLog(unsigned count, const CUjit_option* options, void** values);
  void info(const std::string& text);
  void error(const std::string& text);

 private:
  void put(const std::string& text, CUjit_option buffer, CUjit_option size);
  unsigned count_;
  const CUjit_option* options_;
  void** values_;
};

// `read_image` with the options' logs filled.
ProgramRef read_image(const void* image, unsigned architecture, unsigned count, const CUjit_option* options,
                      void** values);

// A file's bytes with a zero behind them. Throws CUDA_ERROR_FILE_NOT_FOUND.
std::string file_contents(const char* path);

}  // namespace sim
