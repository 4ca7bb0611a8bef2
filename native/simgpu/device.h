// A device as the program sees it.
#pragma once

#include <memory>
#include <optional>

#include "config.h"
#include "context.h"
#include "link.h"

namespace sim {

struct Pool;

struct Device {
  Device(int at, const DeviceSpec& described) : ordinal(at), spec(described) {}

  const int ordinal;  // in the program's order; the CUdevice
  DeviceSpec spec;    // changes when a checkpoint is restored on another device
  Link to_device, to_host;

  std::shared_ptr<Context> primary;  // made on first retain, kept for good: its handle does not change
  unsigned primary_references = 0;
  unsigned primary_flags = 0;

  std::shared_ptr<Pool> default_pool, current_pool;
};

// The value of a device attribute; nothing for a number that names none.
std::optional<int> attribute_of(const Device& device, CUdevice_attribute attribute);

}  // namespace sim
