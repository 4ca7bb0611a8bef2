// Counting events and pools shared with other processes.
#include "../generated/hooks.h"
#include "../generated/real.h"
#include "../share/events.h"
#include "../vm/forget.h"
#include "residual_key.h"

namespace real = torpor::real;
using torpor::residual::forgotten;
using torpor::residual::key;
using torpor::residual::Kind;
using torpor::residual::noted;

extern "C" CUresult torpor_hook_cuEventDestroy(CUevent hEvent) {
  torpor::vm::forget_object(hEvent);
  torpor::share::events::forget(hEvent);
  return forgotten(forgotten(real::cuEventDestroy(hEvent), Kind::ipc_imported, hEvent), Kind::ipc_exported, hEvent);
}

extern "C" CUresult torpor_hook_cuEventDestroy_v2(CUevent hEvent) {
  torpor::vm::forget_object(hEvent);
  torpor::share::events::forget(hEvent);
  return forgotten(forgotten(real::cuEventDestroy_v2(hEvent), Kind::ipc_imported, hEvent), Kind::ipc_exported, hEvent);
}

extern "C" CUresult torpor_hook_cuMemPoolImportFromShareableHandle(CUmemoryPool* pool_out, void* handle,
                                                                   CUmemAllocationHandleType handleType,
                                                                   unsigned long long flags) {
  return noted(real::cuMemPoolImportFromShareableHandle(pool_out, handle, handleType, flags), Kind::ipc_imported,
               pool_out);
}
