// Every way in which a program reaches the driver. `reach WAY [PATH]`; linked to libcuda.so.1 like an ordinary program.
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "check.h"
#include "fake_driver.h"

namespace {

FakeState& state() {
  const void* table = nullptr;
  CHECK(cuGetExportTable(&table, &kFakeTable) == CUDA_SUCCESS);
  return *static_cast<FakeState*>(const_cast<void*>(table));
}

// The file that holds the code at an address.
std::string file_of(const void* address) {
  Dl_info info{};
  CHECK(dladdr(address, &info) != 0);
  return info.dli_fname;
}

bool ours(const void* address) { return file_of(address).find("fake") == std::string::npos; }

template <typename Function>
void launch(Function* function) {
  CHECK(function(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr) == CUDA_SUCCESS);
}

using Launch = decltype(cuLaunchKernel);

void through_handle(void* handle) {
  CHECK(handle != nullptr);
  void* found = dlsym(handle, "cuLaunchKernel");
  CHECK(found != nullptr);
  CHECK(ours(found));
  launch(reinterpret_cast<Launch*>(found));
  CHECK(state().launches.load() == 1);
}

void by_link() {
  int count = 77;
  CHECK(cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED);  // nobody initialised behind our back
  CHECK(count == 77);
  CHECK(cuInit(0) == CUDA_SUCCESS);
  CHECK(cuDeviceGetCount(&count) == CUDA_SUCCESS && count == 1);
  CHECK(cuDriverGetVersion(nullptr) == CUDA_ERROR_INVALID_VALUE);
  launch(cuLaunchKernel);
  CHECK(state().launches.load() == 1);
  CHECK(cuMemAdvise(0, 0, CU_MEM_ADVISE_SET_READ_MOSTLY, 0) == CUDA_ERROR_NOT_SUPPORTED);  // the fake lacks it
  CHECK(dlerror() == nullptr);
}

template <typename Function>
Function* looked_up(const char* name, int version, cuuint64_t flags, bool expect_ours) {
  void* one = nullptr;
  void* two = nullptr;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
  CHECK(cuGetProcAddress(name, &one, version, flags) == CUDA_SUCCESS);
  CHECK(cuGetProcAddress_v2(name, &two, version, flags, &status) == CUDA_SUCCESS);
  CHECK(status == CU_GET_PROC_ADDRESS_SUCCESS);
  CHECK(one == two);
  CHECK(ours(one) == expect_ours);
  return reinterpret_cast<Function*>(one);
}

void by_lookup() {
  launch(looked_up<Launch>("cuLaunchKernel", 12000, CU_GET_PROC_ADDRESS_DEFAULT, true));
  launch(looked_up<Launch>("cuLaunchKernel", 12000, CU_GET_PROC_ADDRESS_LEGACY_STREAM, true));
  CHECK(state().per_thread_launches.load() == 0);
  launch(looked_up<Launch>("cuLaunchKernel", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, true));
  CHECK(state().per_thread_launches.load() == 1);
  CHECK(state().launches.load() == 3);

  const char* name = nullptr;
  looked_up<decltype(cuGetErrorName)>("cuGetErrorName", 6000, 0, true)(CUDA_SUCCESS, &name);
  CHECK(std::strcmp(name, "CUDA_FAKE") == 0);

  // The lookup of the lookup is ours, at each version.
  void* inner = nullptr;
  auto* first = looked_up<decltype(cuGetProcAddress)>("cuGetProcAddress", 11030, 0, true);
  CHECK(first("cuLaunchKernel", &inner, 4000, 0) == CUDA_SUCCESS && ours(inner));
  auto* second = looked_up<decltype(cuGetProcAddress_v2)>("cuGetProcAddress", 12000, 0, true);
  CHECK(second("cuLaunchKernel", &inner, 4000, 0, nullptr) == CUDA_SUCCESS && ours(inner));

  // An address that is no export: our wrapper is handed out and calls what the driver gave.
  auto* fill = looked_up<decltype(cuMemsetD8_v2)>("cuMemsetD8", 12000, 0, true);
  CHECK(fill(0, 0, 0) == CUDA_SUCCESS);
  CHECK(state().internal_fills.load() == 1);
  CHECK(looked_up<decltype(cuMemsetD8_v2)>("cuMemsetD8", 12000, 0, true) == fill && fill == cuMemsetD8_v2);
  CHECK(fill(0, 0, 0) == CUDA_SUCCESS && state().internal_fills.load() == 2);

  // Our one function calls what was handed out last, whoever knows the answer.
  for (int round = 1; round <= 3; ++round) {
    CHECK(looked_up<decltype(cuMemsetD8_v2)>("cuMemsetD8", 11000, 0, true)(0, 0, 0) == CUDA_SUCCESS);
    CHECK(state().old_fills.load() == static_cast<std::uint64_t>(round));
    CHECK(looked_up<decltype(cuMemsetD8_v2)>("cuMemsetD8", 12000, 0, true)(0, 0, 0) == CUDA_SUCCESS);
    CHECK(state().internal_fills.load() == static_cast<std::uint64_t>(round) + 2);
  }

  // Names that share an address get a function each.
  CHECK(looked_up<decltype(cuProfilerStart)>("cuProfilerStart", 4000, 0, true) == cuProfilerStart);
  CHECK(looked_up<decltype(cuProfilerStop)>("cuProfilerStop", 4000, 0, true) == cuProfilerStop);
  CHECK(cuProfilerStart != cuProfilerStop);

  // Names that we do not know pass through.
  CHECK(looked_up<CUresult()>("cuFarFuture", 14000, 0, false)() == CUDA_ERROR_LAUNCH_TIMEOUT);
  CHECK(looked_up<CUresult()>("cuBrandNewExport", 14000, 0, false)() == CUDA_ERROR_LAUNCH_TIMEOUT);

  // Failures look as the driver's do.
  inner = &inner;
  CHECK(cuGetProcAddress("cuNowhere", &inner, 12000, 0) == CUDA_ERROR_NOT_FOUND && inner == nullptr);
  CHECK(cuGetProcAddress(nullptr, &inner, 12000, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuGetProcAddress("cuLaunchKernel", nullptr, 12000, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuGetProcAddress_v2("cuLaunchKernel", nullptr, 12000, 0, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
  CHECK(cuGetProcAddress_v2("", &inner, 0, 0, &status) == CUDA_SUCCESS && inner == nullptr);
  CHECK(status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
}

// What was answered once is answered in the job, with TORPOR_VM=answers; the name may be written anywhere.
void by_repeated_lookup() {
  const char* const setting = std::getenv("TORPOR_VM");
  const bool answers = setting != nullptr && std::strcmp(setting, "answers") == 0;
  CHECK(cuInit(0) == CUDA_SUCCESS);
  char name[32] = "cuLaunchKernel";
  looked_up<Launch>(name, 12000, 0, true);
  const std::uint64_t before = state().look_ups.load();
  for (int i = 0; i < 10; ++i) CHECK(looked_up<Launch>(i % 2 == 0 ? name : "cuLaunchKernel", 12000, 0, true) == cuLaunchKernel);
  CHECK(state().look_ups.load() - before == (answers ? 0 : 20));
  std::strcpy(name, "cuGetErrorName");
  CHECK(looked_up<decltype(cuGetErrorName)>(name, 12000, 0, true) == cuGetErrorName);
  void* found = nullptr;
  for (int i = 0; i < 3; ++i) CHECK(cuGetProcAddress("cuMemsetD8", &found, 3000, 0) == CUDA_ERROR_NOT_FOUND && found == nullptr);
  const std::uint64_t now = state().look_ups.load();
  CHECK(cuInit(0) == CUDA_SUCCESS);
  looked_up<Launch>("cuLaunchKernel", 12000, 0, true);
  CHECK(state().look_ups.load() - now == 2);  // asked for anew after what may change it
}

// As a statically linked runtime does it: dlopen, one dlsym, everything else by lookup.
void as_static_runtime() {
  void* handle = dlopen("libcuda.so.1", RTLD_NOW);
  CHECK(handle != nullptr);
  auto* lookup = reinterpret_cast<decltype(cuGetProcAddress_v2)*>(dlsym(handle, "cuGetProcAddress_v2"));
  CHECK(lookup != nullptr);
  void* found = nullptr;
  CHECK(lookup("cuLaunchKernel", &found, 12000, 0, nullptr) == CUDA_SUCCESS);
  CHECK(ours(found));
  launch(reinterpret_cast<Launch*>(found));
  CHECK(state().launches.load() == 1);
}

void arguments() {
  void* params[] = {nullptr};
  void* extra[] = {nullptr};
  auto* function = reinterpret_cast<CUfunction>(0x1122334455667788ULL);
  auto* stream = reinterpret_cast<CUstream>(0x99aabbccddeeff00ULL);
  CHECK(cuLaunchKernel(function, 1, 2, 3, 4, 5, 6, 0xfffffff7U, stream, params, extra) == CUDA_SUCCESS);
  const std::uint64_t* seen = state().launch_arguments;
  const std::uint64_t expected[] = {0x1122334455667788ULL, 1, 2, 3, 4, 5, 6, 0xfffffff7U, 0x99aabbccddeeff00ULL,
                                    reinterpret_cast<std::uint64_t>(params), reinterpret_cast<std::uint64_t>(extra)};
  CHECK(std::memcmp(seen, expected, sizeof expected) == 0);

  const CUmemLocation location = {CU_MEM_LOCATION_TYPE_HOST_NUMA, 5};
  CHECK(cuMemPrefetchAsync_v2(1, 2, location, 0, nullptr) == CUDA_SUCCESS);
  CHECK(state().location.type == location.type && state().location.id == 5);

  CUipcMemHandle handle;
  for (int i = 0; i < CU_IPC_HANDLE_SIZE; ++i) handle.reserved[i] = static_cast<char>(i * 3);
  CUdeviceptr pointer = 0;
  CHECK(cuIpcOpenMemHandle_v2(&pointer, handle, 1) == CUDA_SUCCESS && pointer == 0x1000);
  CHECK(std::memcmp(&state().ipc, &handle, sizeof handle) == 0);
  CHECK(cuIpcCloseMemHandle(pointer) == CUDA_SUCCESS);

  CUeglFrame frame;
  std::memset(&frame, 0x5a, sizeof frame);
  CHECK(cuEGLStreamProducerPresentFrame(nullptr, frame, nullptr) == CUDA_SUCCESS);
  CHECK(std::memcmp(&state().frame, &frame, sizeof frame) == 0);
}

// The program's very first driver call: the resolver keeps argument registers, the floating-point ones included.
void first_call_float() {
  CHECK(cuParamSetf(nullptr, 12, 2.5F) == CUDA_SUCCESS);
  CHECK(state().parameter == 2.5F && state().parameter_offset == 12);
}

}  // namespace

int main(int count, char** words) {
  CHECK(count >= 2);
  const std::string way = words[1];
  const char* path = count > 2 ? words[2] : "libcuda.so.1";
  if (way == "link") by_link();
  else if (way == "dlopen") through_handle(dlopen(path, RTLD_NOW));
  else if (way == "deepbind") through_handle(dlopen(path, RTLD_NOW | RTLD_DEEPBIND | RTLD_LOCAL));
  else if (way == "dlmopen") through_handle(dlmopen(LM_ID_BASE, path, RTLD_NOW));
  else if (way == "absent") CHECK(dlopen(path, RTLD_NOW) == nullptr && std::strstr(dlerror(), path) != nullptr);
  else if (way == "lookup") by_lookup();
  else if (way == "again") by_repeated_lookup();
  else if (way == "runtime") as_static_runtime();
  else if (way == "arguments") arguments();
  else if (way == "float") first_call_float();
  else CHECK(!"known way");
  return 0;
}
