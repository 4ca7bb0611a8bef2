// What kernels have printed and nobody has seen yet, as the device's printf queue holds it.
#pragma once

#include <mutex>
#include <string>

#include "exec/launch.h"

namespace sim {

// Written out at the host's next synchronisation. What would exceed the limit is lost, as on hardware, where the
// oldest lines are lost instead.
class PrintBuffer : public exec::PrintSink {
 public:
  void print(std::string_view text) override;
  void flush();  // to standard output, after what the program itself has printed
  void limit(size_t bytes);

 private:
  std::mutex mutex_;
  std::string text_;
  size_t limit_ = size_t{7} << 20;
};

}  // namespace sim
