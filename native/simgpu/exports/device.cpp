// Devices and what is asked about them.
#include <cstdio>
#include <cstring>
#include <climits>
#include <algorithm>

#include "entry.h"

using namespace sim;

namespace {

Device& at(CUdevice ordinal) { return process().device(ordinal); }

void format_bus_id(const Device& device, char* out, size_t size) {
  std::snprintf(out, size, "0000:%02X:00.0", static_cast<unsigned>(device.spec.bus));
}

}  // namespace

SIM_API(cuDeviceGetCount, query, (int* count), (count)) {
  require(count != nullptr);
  *count = static_cast<int>(process().devices.size());
}

SIM_API(cuDeviceGet, query, (CUdevice* out, int ordinal), (out, ordinal)) {
  require(out != nullptr);
  *out = at(ordinal).ordinal;
}

SIM_API(cuDeviceGetName, query, (char* name, int length, CUdevice device), (name, length, device)) {
  require(name != nullptr && length > 0);
  std::snprintf(name, static_cast<size_t>(length), "%s", at(device).spec.name);
}

static void get_uuid(CUuuid* out, CUdevice device) {
  require(out != nullptr);
  std::memcpy(out->bytes, at(device).spec.uuid.data(), sizeof out->bytes);
}

SIM_API(cuDeviceGetUuid, query, (CUuuid* out, CUdevice device), (out, device)) { get_uuid(out, device); }
SIM_API(cuDeviceGetUuid_v2, query, (CUuuid* out, CUdevice device), (out, device)) { get_uuid(out, device); }

SIM_API(cuDeviceTotalMem_v2, query, (size_t* bytes, CUdevice device), (bytes, device)) {
  require(bytes != nullptr);
  *bytes = at(device).spec.memory;
}

SIM_API(cuDeviceGetAttribute, query, (int* value, CUdevice_attribute attribute, CUdevice device),
        (value, attribute, device)) {
  require(value != nullptr);
  auto found = attribute_of(at(device), attribute);
  require(found.has_value());
  *value = *found;
}

SIM_API(cuDeviceComputeCapability, query, (int* major, int* minor, CUdevice device), (major, minor, device)) {
  require(major != nullptr && minor != nullptr);
  *major = at(device).spec.major;
  *minor = at(device).spec.minor;
}

SIM_API(cuDeviceGetProperties, query, (CUdevprop* out, CUdevice device), (out, device)) {
  require(out != nullptr);
  const Device& asked = at(device);
  auto value = [&](CUdevice_attribute attribute) { return attribute_of(asked, attribute).value(); };
  *out = {};
  out->maxThreadsPerBlock = value(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  out->maxThreadsDim[0] = value(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X);
  out->maxThreadsDim[1] = value(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y);
  out->maxThreadsDim[2] = value(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z);
  out->maxGridSize[0] = value(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
  out->maxGridSize[1] = value(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y);
  out->maxGridSize[2] = value(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z);
  out->sharedMemPerBlock = value(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
  out->totalConstantMemory = value(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY);
  out->SIMDWidth = value(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  out->memPitch = value(CU_DEVICE_ATTRIBUTE_MAX_PITCH);
  out->regsPerBlock = value(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
  out->clockRate = value(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  out->textureAlign = value(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
}

SIM_API(cuDeviceGetPCIBusId, query, (char* out, int length, CUdevice device), (out, length, device)) {
  char text[16];
  format_bus_id(at(device), text, sizeof text);
  require(out != nullptr && length > static_cast<int>(std::strlen(text)));
  std::strcpy(out, text);
}

SIM_API(cuDeviceGetByPCIBusId, query, (CUdevice* out, const char* text), (out, text)) {
  require(out != nullptr && text != nullptr);
  unsigned domain = 0, bus = 0, slot = 0, function = 0;
  bool full = std::sscanf(text, "%x:%x:%x.%x", &domain, &bus, &slot, &function) >= 3;
  if (!full) {
    domain = 0;
    require(std::sscanf(text, "%x:%x.%x", &bus, &slot, &function) >= 2);
  }
  for (const auto& device : process().devices) {
    if (domain != 0 || slot != 0 || static_cast<unsigned>(device->spec.bus) != bus) continue;
    *out = device->ordinal;
    return;
  }
  fail(CUDA_ERROR_INVALID_DEVICE);
}

SIM_API(cuDeviceGetTexture1DLinearMaxWidth, query,
        (size_t* out, CUarray_format, unsigned channels, CUdevice device),
        (out, CU_AD_FORMAT_FLOAT, channels, device)) {
  require(out != nullptr && (channels == 1 || channels == 2 || channels == 4));
  at(device);
  *out = size_t{268435456} / channels;
}

SIM_API(cuDeviceGetExecAffinitySupport, query, (int* out, CUexecAffinityType type, CUdevice device),
        (out, type, device)) {
  require(out != nullptr && type == CU_EXEC_AFFINITY_TYPE_SM_COUNT);
  at(device);
  *out = 0;
}

SIM_API(cuDeviceCanAccessPeer, query, (int* out, CUdevice device, CUdevice peer), (out, device, peer)) {
  require(out != nullptr);
  *out = &at(device) != &at(peer);
}

SIM_API(cuDeviceGetP2PAttribute, query,
        (int* out, CUdevice_P2PAttribute attribute, CUdevice from, CUdevice to), (out, attribute, from, to)) {
  require(out != nullptr);
  bool same = &at(from) == &at(to);
  require(!same, CUDA_ERROR_INVALID_DEVICE);
  switch (attribute) {
    case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
    case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
      *out = 1;
      return;
    case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
    case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
      *out = 0;
      return;
    default:
      fail(CUDA_ERROR_INVALID_VALUE);
  }
}
