// Asking the driver on the side, in a thread of the program or in one of ours.
#pragma once

#include "../generated/real.h"

namespace torpor {

// While it lives, calls of this thread that a capture forbids, in whatever thread, are allowed and do not end it.
class Aside {
 public:
  Aside() { real::cuThreadExchangeStreamCaptureMode(&mode_); }
  ~Aside() { real::cuThreadExchangeStreamCaptureMode(&mode_); }
  Aside(const Aside&) = delete;
  Aside& operator=(const Aside&) = delete;

 private:
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

}  // namespace torpor
