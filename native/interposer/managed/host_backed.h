// Managed memory as pinned memory of the host, at one address for CPU and GPU (`torpor run --managed host`).
//
// The driver cannot checkpoint its managed memory. Registered host memory it can: the pages are the process's own. What is
// lost is migration: the GPU reaches every byte through the link. Thread safe; callers hold a gate::Scope around everything
// but wait().
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "../../abi/cuda_driver.h"
#include "../arena/contexts.h"

namespace torpor::managed {

// What a program said about the use of some memory; it changes nothing, and can be asked for.
struct Advice {
  bool read_mostly = false;
  CUmemLocation preferred{};        // type CU_MEM_LOCATION_TYPE_INVALID: none
  CUmemLocation last_prefetch{};
  std::vector<int> accessed_by;     // devices, or CU_DEVICE_CPU
};

struct Allocation {
  CUdeviceptr address = 0;
  std::uint64_t size = 0;  // as asked for
  std::uint64_t owner = 0;
  CUcontext context = nullptr;
  int device = 0;
  Advice advice;
};

// Whether this process wants it: TORPOR_MANAGED=host.
bool wanted();

// Memory for the current context.
CUresult allocate(std::uint64_t size, CUdeviceptr& out);

// The allocation that an address is in. Costs one load where there is none at all.
std::optional<Allocation> find(CUdeviceptr address);
// The allocation that holds all of [address, address + size).
std::optional<Allocation> holding(CUdeviceptr address, std::uint64_t size);

// Changes what is known about an allocation, if it is still there.
void advise(const Allocation& allocation, const Advice& advice);

// Waits for the work of its context, as cuMemFree does.
CUresult wait(const Allocation& allocation);
// Gives the memory back; false when another thread has.
bool release(const Allocation& allocation);

// Releases what a destroyed context owned.
void context_gone(const contexts::Context& context);

}  // namespace torpor::managed
