// A driver library that records what reaches it: stands in for the real libcuda.so.1 in the interposer's tests.
#include "fake_driver.h"

#include <unistd.h>

#include <cstring>

#define API extern "C" __attribute__((visibility("default")))

namespace {

FakeState state;

void wait_while_blocked() {
  state.blocked.fetch_add(1);
  while (state.block.load() != 0) ::usleep(200);
  state.blocked.fetch_sub(1);
}

// Not exported: programs get its address from cuGetProcAddress only, as a driver may do.
CUresult internal_fill(CUdeviceptr, unsigned char, size_t) {
  state.internal_fills.fetch_add(1);
  return CUDA_SUCCESS;
}

CUresult old_fill(CUdeviceptr, unsigned char, size_t) {
  state.old_fills.fetch_add(1);
  return CUDA_SUCCESS;
}

CUresult newer_than_we_know() { return CUDA_ERROR_LAUNCH_TIMEOUT; }

template <typename T>
std::uint64_t bits(T value) {
  if constexpr (std::is_pointer_v<T>) {
    return reinterpret_cast<std::uint64_t>(value);
  } else {
    return value;
  }
}

}  // namespace

// Exported without our build knowing it.
API CUresult cuBrandNewExport() { return CUDA_ERROR_LAUNCH_TIMEOUT; }

API CUresult cuInit(unsigned int) {
  state.initialised.fetch_add(1);
  return CUDA_SUCCESS;
}

API CUresult cuDriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = 13000;
  return CUDA_SUCCESS;
}

API CUresult cuDeviceGetCount(int* count) {
  if (state.initialised.load() == 0) return CUDA_ERROR_NOT_INITIALIZED;
  *count = 1;
  return CUDA_SUCCESS;
}

API CUresult cuGetExportTable(const void** table, const CUuuid* id) {
  if (std::memcmp(id, &kFakeTable, sizeof kFakeTable) != 0) return CUDA_ERROR_INVALID_VALUE;
  *table = &state;
  return CUDA_SUCCESS;
}

API CUresult cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
                            unsigned int by, unsigned int bz, unsigned int shared, CUstream stream, void** params,
                            void** extra) {
  state.launches.fetch_add(1);
  const std::uint64_t seen[] = {bits(f),  bits(gx),     bits(gy),     bits(gz),     bits(bx),   bits(by),
                                bits(bz), bits(shared), bits(stream), bits(params), bits(extra)};
  if (f != nullptr) std::memcpy(state.launch_arguments, seen, sizeof seen);
  return CUDA_SUCCESS;
}

API CUresult cuLaunchKernel_ptsz(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
                                 unsigned int by, unsigned int bz, unsigned int shared, CUstream stream, void** params,
                                 void** extra) {
  state.per_thread_launches.fetch_add(1);
  return cuLaunchKernel(f, gx, gy, gz, bx, by, bz, shared, stream, params, extra);
}

API CUresult cuParamSetf(CUfunction, int offset, float value) {
  state.parameter = value;
  state.parameter_offset = offset;
  return CUDA_SUCCESS;
}

API CUresult cuMemPrefetchAsync_v2(CUdeviceptr, size_t, CUmemLocation location, unsigned int, CUstream) {
  state.location = location;
  return CUDA_SUCCESS;
}

API CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* pointer, CUipcMemHandle handle, unsigned int) {
  state.ipc = handle;
  *pointer = 0x1000;
  return CUDA_SUCCESS;
}

API CUresult cuIpcCloseMemHandle(CUdeviceptr) { return CUDA_SUCCESS; }

API CUresult cuEGLStreamProducerPresentFrame(CUeglStreamConnection*, CUeglFrame frame, CUstream*) {
  state.frame = frame;
  return CUDA_SUCCESS;
}

API CUresult cuModuleLoadData(CUmodule*, const void*) {
  wait_while_blocked();
  return CUDA_SUCCESS;
}

API CUresult cuStreamSynchronize(CUstream) {
  wait_while_blocked();
  return CUDA_SUCCESS;
}

// Resources that leave residual state: handles count up, and everything succeeds unless `fail` is set.
namespace {

CUresult made(unsigned long long* handle) {
  if (state.fail.load() != 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *handle = 0x10000 * ++state.handles;
  return CUDA_SUCCESS;
}

template <typename Handle>
CUresult made(Handle** handle) {
  return made(reinterpret_cast<unsigned long long*>(handle));
}

CUresult done() { return state.fail.load() != 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS; }

}  // namespace

API CUresult cuMemAllocManaged(CUdeviceptr* pointer, size_t, unsigned int) {
  const CUresult result = made(pointer);
  if (result == CUDA_SUCCESS) state.managed_alive.store(*pointer);
  return result;
}

API CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr pointer) {
  if (attribute != CU_POINTER_ATTRIBUTE_IS_MANAGED || pointer != state.managed_alive.load()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const int managed = 1;
  std::memcpy(data, &managed, sizeof managed);
  return CUDA_SUCCESS;
}

API CUresult cuImportExternalMemory(CUexternalMemory* memory, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC*) {
  return made(memory);
}
API CUresult cuDestroyExternalMemory(CUexternalMemory) { return done(); }
API CUresult cuMulticastCreate(CUmemGenericAllocationHandle* handle, const CUmulticastObjectProp*) {
  return made(handle);
}
API CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void*, CUmemAllocationHandleType) {
  return made(handle);
}
API CUresult cuMemMap(CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long) { return done(); }
API CUresult cuMemUnmap(CUdeviceptr, size_t) { return done(); }
API CUresult cuMemRelease(CUmemGenericAllocationHandle) { return done(); }
API CUresult cuIpcOpenEventHandle(CUevent* event, CUipcEventHandle) { return made(event); }
API CUresult cuEventDestroy_v2(CUevent) { return done(); }
API CUresult cuStreamBeginCapture_v2(CUstream, CUstreamCaptureMode) { return done(); }
API CUresult cuStreamBeginCapture_v2_ptsz(CUstream, CUstreamCaptureMode) { return done(); }
API CUresult cuStreamEndCapture(CUstream, CUgraph*) { return done(); }
API CUresult cuStreamEndCapture_ptsz(CUstream, CUgraph*) { return done(); }
API CUresult cuStreamIsCapturing(CUstream, CUstreamCaptureStatus* status) {
  *status = state.still_capturing.load() != 0 ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
API CUresult cuStreamDestroy_v2(CUstream) { return done(); }

// Two names of one function.
API CUresult cuProfilerStart() { return CUDA_SUCCESS; }
API CUresult cuProfilerStop() __attribute__((alias("cuProfilerStart")));

API CUresult cuMemsetD8_v2(CUdeviceptr, unsigned char, size_t) { return CUDA_ERROR_INVALID_VALUE; }

API CUresult cuGetErrorName(CUresult, const char** name) {
  *name = "CUDA_FAKE";
  return CUDA_SUCCESS;
}

API CUresult cuGetProcAddress_v2(const char* symbol, void** pfn, int version, cuuint64_t flags,
                                 CUdriverProcAddressQueryResult* status);

API CUresult cuGetProcAddress(const char* symbol, void** pfn, int version, cuuint64_t flags) {
  return cuGetProcAddress_v2(symbol, pfn, version, flags, nullptr);
}

API CUresult cuGetProcAddress_v2(const char* symbol, void** pfn, int version, cuuint64_t flags,
                                 CUdriverProcAddressQueryResult* status) {
  if (symbol == nullptr || pfn == nullptr) return CUDA_ERROR_INVALID_VALUE;
  state.look_ups.fetch_add(1);
  const bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  void* found = nullptr;
  const auto is = [symbol](const char* name) { return std::strcmp(symbol, name) == 0; };
  if (is("cuLaunchKernel") && version >= 4000) {
    found = reinterpret_cast<void*>(per_thread ? cuLaunchKernel_ptsz : cuLaunchKernel);
  } else if (is("cuProfilerStart") || is("cuProfilerStop")) {
    found = reinterpret_cast<void*>(cuProfilerStart);
  } else if (is("cuGetErrorName")) {
    found = reinterpret_cast<void*>(cuGetErrorName);
  } else if (is("cuGetProcAddress")) {
    found = version >= 12000 ? reinterpret_cast<void*>(cuGetProcAddress_v2) : reinterpret_cast<void*>(cuGetProcAddress);
  } else if (is("cuMemsetD8") && version >= 3020) {
    found = reinterpret_cast<void*>(version >= 12000 ? internal_fill : old_fill);
  } else if (is("cuFarFuture")) {
    found = reinterpret_cast<void*>(newer_than_we_know);
  } else if (is("cuBrandNewExport")) {
    found = reinterpret_cast<void*>(cuBrandNewExport);
  }
  *pfn = found;
  if (status != nullptr) *status = found ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return status != nullptr || found != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
