// Stand-ins for the device files that a GPU's driver keeps open and mapped (/dev/nvidia*), where the environment names
// some: what a forked child inherits of the driver, and what must be gone when a process is checkpointed.
#pragma once

#include <string>
#include <vector>

#include "descriptor.h"

namespace sim {

class DeviceFiles {
 public:
  // Opens every file that TORPOR_SIM_DEVICE_FILES names (separated by ':'), and maps a page of those that can be mapped.
  // Throws CUDA_ERROR_OPERATING_SYSTEM, with nothing left open.
  void open();

  // Leaves none of them open or mapped.
  void close();

 private:
  struct File {
    Descriptor descriptor;
    void* page = nullptr;
  };

  std::vector<File> files_;
};

}  // namespace sim
