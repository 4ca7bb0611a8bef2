// Threads that use the software GPU all at once, while the process checkpoints itself again and again.
//
// Each thread copies, fills, records, waits, allocates and maps on streams of its own and checks every byte that it
// reads back. Ends with status 0 when all rounds were right, 1 with a line on standard error otherwise.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <unistd.h>
#include <vector>

#include "abi/cuda_driver.h"

namespace {

constexpr size_t block = size_t{2} << 20;
std::atomic<int> running;
std::atomic<uint64_t> callbacks;

void check(CUresult status, const char* what) {
  if (status == CUDA_SUCCESS) return;
  std::fprintf(stderr, "%s returned %d\n", what, static_cast<int>(status));
  std::_Exit(1);
}
#define OK(call) check(call, #call)

void expect(bool right, const char* what) {
  if (right) return;
  std::fprintf(stderr, "wrong: %s\n", what);
  std::_Exit(1);
}

struct Mapped {
  CUmemGenericAllocationHandle handle;
  CUdeviceptr address;
};

Mapped map_block() {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUmemAccessDesc access{};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  Mapped made{};
  OK(cuMemCreate(&made.handle, block, &properties, 0));
  OK(cuMemAddressReserve(&made.address, block, 0, 0, 0));
  OK(cuMemMap(made.address, block, 0, made.handle, 0));
  OK(cuMemSetAccess(made.address, block, &access, 1));
  return made;
}

void unmap(const Mapped& mapped) {
  OK(cuMemUnmap(mapped.address, block));
  OK(cuMemAddressFree(mapped.address, block));
  OK(cuMemRelease(mapped.handle));
}

void work(CUcontext context, int seed, int rounds) {
  OK(cuCtxSetCurrent(context));
  CUstream first = nullptr, second = nullptr;
  OK(cuStreamCreate(&first, seed % 2 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
  OK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
  CUevent event = nullptr;
  OK(cuEventCreate(&event, CU_EVENT_DEFAULT));
  void* pinned = nullptr;
  OK(cuMemHostAlloc(&pinned, 4096, 0));
  CUdeviceptr kept = 0;
  OK(cuMemAlloc_v2(&kept, 8192));
  OK(cuMemsetD32_v2(kept + 4096, static_cast<unsigned>(seed), 16));
  for (int round = 0; round < rounds; ++round) {
    auto value = static_cast<unsigned char>(seed * 31 + round);
    Mapped mapped = map_block();
    CUdeviceptr pooled = 0;
    OK(cuMemAllocAsync(&pooled, 4096, first));
    OK(cuMemsetD8Async(mapped.address + block - 4096, value, 4096, first));
    OK(cuMemcpyDtoDAsync_v2(pooled, mapped.address + block - 4096, 4096, first));
    OK(cuEventRecord(event, first));
    OK(cuStreamWaitEvent(second, event, 0));
    OK(cuMemcpyAsync(kept, pooled, 4096, second));
    OK(cuMemcpyDtoHAsync_v2(pinned, kept, 4096, second));
    OK(cuLaunchHostFunc(second, [](void*) { ++callbacks; }, nullptr));
    OK(cuEventRecord(event, second));
    OK(cuStreamWaitEvent(first, event, 0));
    OK(cuMemFreeAsync(pooled, first));
    OK(cuStreamSynchronize(second));
    const auto* bytes = static_cast<const unsigned char*>(pinned);
    expect(bytes[0] == value && std::memcmp(bytes, bytes + 1, 4095) == 0, "bytes that went through the device");
    if (round % 4 == 0) OK(cuCtxSynchronize());
    unmap(mapped);
    unsigned mark = 0;
    OK(cuMemcpyDtoH_v2(&mark, kept + 4096, sizeof mark));
    expect(mark == static_cast<unsigned>(seed), "bytes that stayed on the device");
  }
  OK(cuMemFree_v2(kept));
  OK(cuMemFreeHost(pinned));
  OK(cuEventDestroy_v2(event));
  OK(cuStreamDestroy_v2(first));
  OK(cuStreamDestroy_v2(second));
  --running;
}

}  // namespace

int main(int, char** arguments) {
  const int threads = std::atoi(arguments[1]), rounds = std::atoi(arguments[2]);
  OK(cuInit(0));
  CUcontext context = nullptr;
  OK(cuDevicePrimaryCtxRetain(&context, 0));
  running = threads;
  std::vector<std::thread> workers;
  for (int seed = 1; seed <= threads; ++seed) workers.emplace_back(work, context, seed, rounds);
  int cycles = 0;
  do {
    OK(cuCheckpointProcessLock(getpid(), nullptr));
    OK(cuCheckpointProcessCheckpoint(getpid(), nullptr));
    OK(cuCheckpointProcessRestore(getpid(), nullptr));
    OK(cuCheckpointProcessUnlock(getpid(), nullptr));
    ++cycles;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  } while (running != 0);
  for (std::thread& worker : workers) worker.join();
  OK(cuCtxSetCurrent(context));
  OK(cuCtxSynchronize());
  size_t unused = 0, total = 0;
  OK(cuMemGetInfo_v2(&unused, &total));
  expect(unused == total, "the free memory at the end");
  expect(callbacks == static_cast<uint64_t>(threads) * static_cast<uint64_t>(rounds), "the count of callbacks");
  std::printf("%d\n", cycles);
}
