// Device memory between processes by cuIpc*: what cuMemAlloc gave out, opened elsewhere.
//
// Linear memory is private memory of its process. The first handle that is asked for makes a memfd of it, in place; a
// checkpoint makes it private again, which ends the sharing.
#pragma once

#include <vector>

#include "address_map.h"

namespace sim {

struct Process;

// True when no work is under way in any context, so that the pages of an allocation can be exchanged.
bool nothing_runs(Process& self);

// Makes other processes able to open it; the contents stay. Nothing may run. Throws CUDA_ERROR_OUT_OF_MEMORY.
void export_linear(Allocation& allocation);

// The handle of exported memory.
CUipcMemHandle handle_of(const Allocation& allocation);

// The address in the current context of another process' memory; the same one again when it is open there already.
// Throws CUDA_ERROR_INVALID_VALUE for a handle that is none, CUDA_ERROR_INVALID_CONTEXT for one of this process,
// CUDA_ERROR_INVALID_HANDLE when the memory is gone, CUDA_ERROR_INVALID_DEVICE when its device is not visible here.
CUdeviceptr open_memory(Process& self, Context& context, const CUipcMemHandle& handle);

// Private memory with the contents of exported memory, which it can take the place of.
class PrivateCopy {
 public:
  // Throws CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_OPERATING_SYSTEM.
  explicit PrivateCopy(AllocationRef exported);
  void take_place();

 private:
  AllocationRef of_;
  PrivateMemory bytes_;
};

std::vector<PrivateCopy> copies_of_exported(const AddressMap& memory);

}  // namespace sim
