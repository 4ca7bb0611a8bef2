// A program that stays: one command per line of its input, "done" after each. What it holds is asked over the control
// socket meanwhile.
#include <iostream>
#include <string>
#include <thread>

#include "check.h"
#include "fake_driver.h"

namespace {

FakeState& state() {
  const void* table = nullptr;
  CHECK(cuGetExportTable(&table, &kFakeTable) == CUDA_SUCCESS);
  return *static_cast<FakeState*>(const_cast<void*>(table));
}

CUstream const kStream = reinterpret_cast<CUstream>(0x500);

// Handles of the last resource of each kind.
CUexternalMemory external;
CUmemGenericAllocationHandle imported, multicast;
CUdeviceptr ipc_memory;
CUevent ipc_event;
std::thread blocked;

template <typename Call>
void start_blocked(Call call) {
  state().block.store(1);
  blocked = std::thread(call);
  while (state().blocked.load() == 0) std::this_thread::yield();
}

void act(const std::string& command) {
  CUdeviceptr pointer = 0;
  CUgraph graph = nullptr;
  void* found = nullptr;
  const CUDA_EXTERNAL_MEMORY_HANDLE_DESC description{};
  const CUmulticastObjectProp property{};
  const CUipcMemHandle memory_handle{};
  const CUipcEventHandle event_handle{};
  if (command == "fail") state().fail.store(1);
  else if (command == "succeed") state().fail.store(0);
  else if (command == "managed") cuMemAllocManaged(&pointer, 64, CU_MEM_ATTACH_GLOBAL);
  else if (command == "managed gone") state().managed_alive.store(0);
  else if (command == "external") cuImportExternalMemory(&external, &description);
  else if (command == "external gone") cuDestroyExternalMemory(external);
  else if (command == "imported") {
    cuMemImportFromShareableHandle(&imported, nullptr, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  } else if (command == "imported mapped") {
    cuMemMap(0x200000, 0x200000, 0, imported, 0);
    cuMemMap(0x400000, 0x200000, 0, imported, 0);
  } else if (command == "imported released") cuMemRelease(imported);
  else if (command == "imported unmapped") cuMemUnmap(0x200000, 0x400000);
  else if (command == "own mapped") cuMemMap(0x800000, 0x200000, 0, 0x77, 0);
  else if (command == "multicast") cuMulticastCreate(&multicast, &property);
  else if (command == "multicast gone") cuMemRelease(multicast);
  else if (command == "ipc") {
    cuIpcOpenMemHandle_v2(&ipc_memory, memory_handle, 0);
    cuIpcOpenEventHandle(&ipc_event, event_handle);
  } else if (command == "ipc gone") {
    cuIpcCloseMemHandle(ipc_memory);
    cuEventDestroy_v2(ipc_event);
  } else if (command == "capture") cuStreamBeginCapture_v2(kStream, CU_STREAM_CAPTURE_MODE_GLOBAL);
  else if (command == "capture ends") cuStreamEndCapture(kStream, &graph);
  else if (command == "own capture") cuStreamBeginCapture_v2_ptsz(nullptr, CU_STREAM_CAPTURE_MODE_GLOBAL);
  else if (command == "own capture ends") cuStreamEndCapture_ptsz(nullptr, &graph);
  else if (command == "stream gone") cuStreamDestroy_v2(kStream);
  else if (command == "unfinished") state().still_capturing.store(1);
  else if (command == "finished") state().still_capturing.store(0);
  else if (command == "unknown") {
    for (int i = 0; i < 3; ++i) cuGetProcAddress("cuFarFuture", &found, 14000, 0);
    cuGetProcAddress("cuBrandNewExport", &found, 14000, 0);
    cuGetProcAddress("cuNowhere", &found, 14000, 0);
    cuGetProcAddress("cuGetErrorName", &found, 6000, 0);
  } else if (command == "load") start_blocked([] { cuModuleLoadData(nullptr, nullptr); });
  else if (command == "wait") start_blocked([] { cuStreamSynchronize(nullptr); });
  else if (command == "go on") {
    state().block.store(0);
    blocked.join();
  } else CHECK(!"known command");
}

}  // namespace

int main() {
  CHECK(cuInit(0) == CUDA_SUCCESS);
  std::cout << "done" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    act(line);
    std::cout << "done" << std::endl;
  }
  return 0;
}
