// The machine that the software GPU pretends to be, as the environment describes it (docs/simgpu.md).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "abi.h"

namespace sim {

using Uuid = std::array<uint8_t, 16>;

// One device of the machine. Trivially copyable: it travels between processes at a restore.
struct DeviceSpec {
  Uuid uuid;
  uint64_t memory;        // bytes
  double link;            // GB/s between host and device, each direction; 0 = no limit
  int32_t major, minor;   // architecture
  int32_t bus;            // PCI bus number, from the ordinal in the machine
  char name[128];
};

constexpr size_t max_devices = 16;

struct Config {
  std::vector<DeviceSpec> machine;  // every device, before CUDA_VISIBLE_DEVICES
  std::vector<DeviceSpec> visible;  // those that the program sees, in its order
};

// Reads TORPOR_SIM_* and CUDA_VISIBLE_DEVICES. A value that cannot be understood throws
// CUDA_ERROR_INVALID_VALUE after one line on standard error naming the variable.
Config read_config();

// What cuDriverGetVersion answers: TORPOR_SIM_DRIVER_VERSION, else 13000.
int driver_version();

std::string format_uuid(const Uuid& uuid);  // "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"

}  // namespace sim
