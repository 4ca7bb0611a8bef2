// CUDA IPC for memory in the arena: handles of ours, opened through a descriptor from the process that made it.
#include "../arena/guarded.h"
#include "../gate/gate.h"
#include "../generated/hooks.h"
#include "../generated/real.h"
#include "../hooks/residual_key.h"
#include "../prim/fork_hold.h"
#include "../prim/log.h"
#include "client.h"
#include "server.h"

namespace torpor::share {
namespace {

using arena::Arena;
namespace contexts = torpor::contexts;

CUresult get_handle(CUipcMemHandle* out, CUdeviceptr address) {
  Arena* const arena = Arena::get();
  if (arena == nullptr || out == nullptr || !arena->contains(address)) return real::cuIpcGetMemHandle(out, address);
  const auto allocation = arena->find(address);
  if (!allocation || allocation->opens != 0 || allocation->pool != nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!serve()) {
    log::error("cuIpcGetMemHandle: outside of a job, device memory in Torpor's arena cannot be shared this way");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  Handle handle;
  const CUresult result = arena->share(*allocation, handle.part);
  if (result == CUDA_ERROR_OPERATING_SYSTEM) {
    log::error("cuIpcGetMemHandle: no file descriptor is free for it; raise the limit (ulimit -n)");
  }
  if (result != CUDA_SUCCESS) return result;
  std::memset(out, 0, sizeof *out);
  std::memcpy(out, &handle, sizeof handle);
  return CUDA_SUCCESS;
}

int ordinal_of(const CUuuid& uuid) {
  int count = 0;
  if (real::cuDeviceGetCount(&count) != CUDA_SUCCESS) return -1;
  for (int device = 0; device < count; ++device) {
    CUuuid here{};
    if (real::cuDeviceGetUuid_v2(&here, device) == CUDA_SUCCESS && std::memcmp(&here, &uuid, sizeof uuid) == 0) {
      return device;
    }
  }
  return -1;
}

CUresult open_ours(CUdeviceptr* out, const CUipcMemHandle& opaque, unsigned int flags) {
  Arena* const arena = Arena::get();
  if (arena == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  if (out == nullptr || (flags & ~static_cast<unsigned>(CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  contexts::Context context;
  const CUresult result = contexts::current(context);
  if (result != CUDA_SUCCESS) return result;
  Handle handle;
  std::memcpy(static_cast<void*>(&handle), &opaque, sizeof handle);
  // The driver does not open a handle where it was made.
  arena::SharedName own = arena::own_name();
  own.block = handle.part.name.block;
  if (handle.part.name == own) return CUDA_ERROR_INVALID_CONTEXT;
  if (const auto again = arena->open_again(handle.part)) {
    *out = *again;
    return CUDA_SUCCESS;
  }
  const ForkHold hold;
  const Answer answer = ask(handle.part.name);
  if (!answer.descriptor) return CUDA_ERROR_INVALID_VALUE;
  if (handle.part.offset >= answer.size || handle.part.size > answer.size - handle.part.offset) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const int device = ordinal_of(answer.device);
  if (device < 0) return CUDA_ERROR_INVALID_DEVICE;
  return arena->open(handle.part, answer.descriptor, answer.size, device, *out);
}

template <typename Open>
CUresult open_handle(CUdeviceptr* out, const CUipcMemHandle& handle, unsigned int flags, Open open) {
  if (is_ours(handle)) return open_ours(out, handle, flags);
  return residual::noted(open(out, handle, flags), residual::Kind::ipc_imported, out);
}

// Waits outside of the gate, as cuMemFree does: the mapping must not go under work that uses it.
CUresult close_handle(CUdeviceptr address) {
  Arena* const arena = Arena::get();
  std::optional<arena::Allocation> allocation;
  {
    const gate::Scope inside("cuIpcCloseMemHandle");
    if (arena != nullptr && arena->contains(address)) {
      allocation = arena->find(address);
      if (!allocation || allocation->address != address || allocation->opens == 0) return CUDA_ERROR_INVALID_VALUE;
    } else {
      return residual::forgotten(real::cuIpcCloseMemHandle(address), residual::Kind::ipc_imported, address);
    }
  }
  const CUresult waited = arena->wait_until_unused(*allocation).value_or(CUDA_SUCCESS);
  if (waited != CUDA_SUCCESS) return waited;
  const gate::Scope inside("cuIpcCloseMemHandle");
  return arena->close(address) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace
}  // namespace torpor::share

using torpor::arena::guarded;
namespace real = torpor::real;
namespace share = torpor::share;

extern "C" CUresult torpor_hook_cuIpcGetMemHandle(CUipcMemHandle* pHandle, CUdeviceptr dptr) {
  return guarded([&] { return share::get_handle(pHandle, dptr); });
}

extern "C" CUresult torpor_hook_cuIpcOpenMemHandle(CUdeviceptr* pdptr, CUipcMemHandle handle, unsigned int Flags) {
  return guarded([&] { return share::open_handle(pdptr, handle, Flags, real::cuIpcOpenMemHandle); });
}

extern "C" CUresult torpor_hook_cuIpcOpenMemHandle_v2(CUdeviceptr* pdptr, CUipcMemHandle handle, unsigned int Flags) {
  return guarded([&] { return share::open_handle(pdptr, handle, Flags, real::cuIpcOpenMemHandle_v2); });
}

extern "C" CUresult torpor_hook_cuIpcCloseMemHandle(CUdeviceptr dptr) {
  return guarded([&] { return share::close_handle(dptr); });
}
