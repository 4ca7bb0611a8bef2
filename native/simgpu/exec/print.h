// printf of a kernel: the text and its arguments lie in device memory.
#pragma once

#include <cstdint>
#include <string>

#include "exec/warp.h"

namespace sim::exec {

class DeviceText {
 public:
  DeviceText(Warp& warp, const Op& op, unsigned lane) : warp_(warp), op_(op), lane_(lane) {}
  std::string read(uint64_t address);                         // up to its zero byte
  std::string format(uint64_t text, uint64_t arguments);      // 8 bytes aligned to their size each, as vprintf's buffer
  unsigned arguments() const { return arguments_; }           // that the last text used

 private:
  bool fetch(uint64_t address, void* out, unsigned size);
  std::string one(const std::string& specification, uint64_t buffer, uint64_t& offset);
  Warp& warp_;
  const Op& op_;
  unsigned lane_;
  unsigned arguments_ = 0;
};

}  // namespace sim::exec
