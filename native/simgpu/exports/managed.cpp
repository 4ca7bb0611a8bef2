// Managed memory: advice and prefetching are checked and change nothing, since every access is a local one.
#include "entry.h"

using namespace sim;

namespace {

void check_range(CUdeviceptr address, size_t size) {
  require(size != 0);
  auto parts = process().memory.covering(address, size);
  require(!parts.empty() && parts.front()->kind == Kind::managed);
}

void check_location(const CUmemLocation& location) {
  switch (location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      process().device(location.id);
      return;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
      return;
    default:
      fail(CUDA_ERROR_INVALID_VALUE);
  }
}

// A number as the older calls take it: a device, or the host as CU_DEVICE_CPU.
CUmemLocation located(CUdevice device) {
  CUmemLocation location{};
  bool host = device == CU_DEVICE_CPU;
  location.type = host ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE;
  location.id = host ? 0 : device;
  return location;
}

void check_advice(CUdeviceptr address, size_t size, CUmem_advise advice, const CUmemLocation& location) {
  check_range(address, size);
  require(advice >= CU_MEM_ADVISE_SET_READ_MOSTLY && advice <= CU_MEM_ADVISE_UNSET_ACCESSED_BY);
  bool placeless = advice == CU_MEM_ADVISE_SET_READ_MOSTLY || advice == CU_MEM_ADVISE_UNSET_READ_MOSTLY ||
                   advice == CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION;
  if (!placeless) check_location(location);
}

}  // namespace

SIM_API(cuMemAdvise, change, (CUdeviceptr address, size_t size, CUmem_advise advice, CUdevice device),
        (address, size, advice, device)) {
  check_advice(address, size, advice, located(device));
}

SIM_API(cuMemAdvise_v2, change, (CUdeviceptr address, size_t size, CUmem_advise advice, CUmemLocation location),
        (address, size, advice, location)) {
  check_advice(address, size, advice, location);
}

SIM_STREAM_API(cuMemPrefetchAsync, _ptsz, change, (CUdeviceptr address, size_t size, CUdevice device, CUstream stream),
               (address, size, device, stream)) {
  check_range(address, size);
  check_location(located(device));
  current_context()->stream(stream, zero);
}

SIM_STREAM_API(cuMemPrefetchAsync_v2, _ptsz, change,
               (CUdeviceptr address, size_t size, CUmemLocation location, unsigned flags, CUstream stream),
               (address, size, location, flags, stream)) {
  require(flags == 0);
  check_range(address, size);
  check_location(location);
  current_context()->stream(stream, zero);
}
