// Primary contexts: one per device, counted.
#include "entry.h"

using namespace sim;

namespace {

bool active(const Device& device) { return device.primary && !device.primary->destroyed; }

// What it still runs.
std::vector<Ticket> end(Device& device) {
  return active(device) ? end_context(*device.primary) : std::vector<Ticket>();
}

void reset(CUdevice ordinal) {
  std::vector<Ticket> running;
  {
    Section section;
    running = end(process().device(ordinal));
  }
  wait_all(running);
}

void release(CUdevice ordinal) {
  std::vector<Ticket> running;
  {
    Section section;
    Device& device = process().device(ordinal);
    require(device.primary_references != 0, CUDA_ERROR_INVALID_CONTEXT);
    if (--device.primary_references == 0) running = end(device);
  }
  wait_all(running);
}

void set_flags(CUdevice ordinal, unsigned flags) {
  Device& device = process().device(ordinal);
  device.primary_flags = flags;
  if (active(device)) device.primary->flags = flags;
}

}  // namespace

SIM_API(cuDevicePrimaryCtxRetain, change, (CUcontext* out, CUdevice ordinal), (out, ordinal)) {
  require(out != nullptr);
  Device& device = process().device(ordinal);
  if (!device.primary) {
    device.primary = std::make_shared<Context>(device, device.primary_flags, 3020, true);
    process().contexts.add(device.primary);
  } else if (device.primary->destroyed) {
    device.primary->revive();
    device.primary->flags = device.primary_flags;
  }
  ++device.primary_references;
  *out = device.primary->handle();
}

SIM_API(cuDevicePrimaryCtxRelease_v2, wait, (CUdevice device), (device)) { release(device); }
SIM_API(cuDevicePrimaryCtxRelease, wait, (CUdevice device), (device)) { release(device); }
SIM_API(cuDevicePrimaryCtxReset_v2, wait, (CUdevice device), (device)) { reset(device); }
SIM_API(cuDevicePrimaryCtxReset, wait, (CUdevice device), (device)) { reset(device); }
SIM_API(cuDevicePrimaryCtxSetFlags_v2, change, (CUdevice device, unsigned flags), (device, flags)) {
  set_flags(device, flags);
}
SIM_API(cuDevicePrimaryCtxSetFlags, change, (CUdevice device, unsigned flags), (device, flags)) {
  set_flags(device, flags);
}

SIM_API(cuDevicePrimaryCtxGetState, query, (CUdevice ordinal, unsigned* flags, int* is_active),
        (ordinal, flags, is_active)) {
  require(flags != nullptr && is_active != nullptr);
  const Device& device = process().device(ordinal);
  *flags = device.primary_flags;
  *is_active = active(device);
}
