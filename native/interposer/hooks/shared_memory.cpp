// Counting managed memory, and memory and events shared with other processes.
#include "../generated/hooks.h"
#include "../generated/real.h"
#include "residual_key.h"

namespace real = torpor::real;
using torpor::residual::forgotten;
using torpor::residual::key;
using torpor::residual::Kind;
using torpor::residual::noted;

extern "C" CUresult torpor_hook_cuMemAllocManaged(CUdeviceptr* dptr, size_t bytesize, unsigned int flags) {
  return noted(real::cuMemAllocManaged(dptr, bytesize, flags), Kind::managed, dptr);
}

extern "C" CUresult torpor_hook_cuLibraryGetManaged(CUdeviceptr* dptr, size_t* bytes, CUlibrary library,
                                                    const char* name) {
  return noted(real::cuLibraryGetManaged(dptr, bytes, library, name), Kind::managed, dptr);
}

extern "C" CUresult torpor_hook_cuIpcOpenMemHandle(CUdeviceptr* pdptr, CUipcMemHandle handle, unsigned int Flags) {
  return noted(real::cuIpcOpenMemHandle(pdptr, handle, Flags), Kind::ipc_imported, pdptr);
}

extern "C" CUresult torpor_hook_cuIpcOpenMemHandle_v2(CUdeviceptr* pdptr, CUipcMemHandle handle, unsigned int Flags) {
  return noted(real::cuIpcOpenMemHandle_v2(pdptr, handle, Flags), Kind::ipc_imported, pdptr);
}

extern "C" CUresult torpor_hook_cuIpcCloseMemHandle(CUdeviceptr dptr) {
  return forgotten(real::cuIpcCloseMemHandle(dptr), Kind::ipc_imported, dptr);
}

extern "C" CUresult torpor_hook_cuIpcOpenEventHandle(CUevent* phEvent, CUipcEventHandle handle) {
  return noted(real::cuIpcOpenEventHandle(phEvent, handle), Kind::ipc_imported, phEvent);
}

extern "C" CUresult torpor_hook_cuIpcGetEventHandle(CUipcEventHandle* pHandle, CUevent event) {
  return noted(real::cuIpcGetEventHandle(pHandle, event), Kind::ipc_exported, &event);
}

extern "C" CUresult torpor_hook_cuEventDestroy(CUevent hEvent) {
  return forgotten(forgotten(real::cuEventDestroy(hEvent), Kind::ipc_imported, hEvent), Kind::ipc_exported, hEvent);
}

extern "C" CUresult torpor_hook_cuEventDestroy_v2(CUevent hEvent) {
  return forgotten(forgotten(real::cuEventDestroy_v2(hEvent), Kind::ipc_imported, hEvent), Kind::ipc_exported, hEvent);
}

extern "C" CUresult torpor_hook_cuMemPoolImportFromShareableHandle(CUmemoryPool* pool_out, void* handle,
                                                                   CUmemAllocationHandleType handleType,
                                                                   unsigned long long flags) {
  return noted(real::cuMemPoolImportFromShareableHandle(pool_out, handle, handleType, flags), Kind::ipc_imported,
               pool_out);
}

extern "C" CUresult torpor_hook_cuMemPoolDestroy(CUmemoryPool pool) {
  return forgotten(real::cuMemPoolDestroy(pool), Kind::ipc_imported, pool);
}
