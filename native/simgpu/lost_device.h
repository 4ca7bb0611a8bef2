// Devices that a fault has taken off the bus (docs/simgpu.md).
#pragma once

namespace sim {

bool device_lost(int ordinal);

}  // namespace sim
