// Threads that use the software GPU all at once, while the process checkpoints itself again and again.
//
// Each thread copies, fills, records, waits, allocates, maps, runs kernels and launches graphs on streams of its own, all
// count on a stream that they share, and every byte that is read back is checked. Ends with status 0 when all rounds were
// right, 1 with a line on standard error otherwise.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <thread>
#include <unistd.h>
#include <vector>

#include "abi/cuda_driver.h"

namespace {

constexpr size_t block = size_t{2} << 20;
std::atomic<int> running;
std::atomic<uint64_t> callbacks;
std::mutex capturing;  // waiting for a whole context breaks the captures in it, as on hardware

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

// `add` adds `by` to each of the words that its threads cover; `count` adds one to a single word, atomically.
const char* const text = R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry add(.param .u64 to, .param .u32 by) {
  .reg .u64 a; .reg .u32 i, n, v, w;
  ld.param.u64 a, [to]; ld.param.u32 v, [by];
  mov.u32 i, %ctaid.x; mov.u32 n, %ntid.x; mov.u32 w, %tid.x; mad.lo.u32 i, i, n, w;
  mad.wide.u32 a, i, 4, a; ld.global.u32 w, [a]; add.u32 w, w, v; bar.sync 0; st.global.u32 [a], w; ret;
}
.visible .entry count(.param .u64 to) {
  .reg .u64 a;
  ld.param.u64 a, [to]; red.global.add.u32 [a], 1; ret;
}
)";

// What all threads share.
struct Common {
  CUcontext context;
  CUfunction add, count;
  CUstream stream;
  CUdeviceptr counter;
};

constexpr unsigned words = 256;

void launch(CUfunction function, CUstream stream, CUdeviceptr to, unsigned by) {
  void* parameters[] = {&to, &by};
  OK(cuLaunchKernel(function, 2, 1, 1, words / 2, 1, 1, 0, stream, parameters, nullptr));
}

// A graph that adds 2 and then 3 to the words, in two branches' order, and calls back.
CUgraphExec make_graph(const Common& common, CUstream first, CUstream second, CUevent event, CUdeviceptr to) {
  CUgraph graph = nullptr;
  std::unique_lock lock(capturing);
  OK(cuStreamBeginCapture_v2(first, CU_STREAM_CAPTURE_MODE_RELAXED));
  launch(common.add, first, to, 2);
  OK(cuEventRecord(event, first));
  OK(cuStreamWaitEvent(second, event, 0));
  launch(common.add, second, to, 3);
  OK(cuLaunchHostFunc(second, [](void*) { ++callbacks; }, nullptr));
  OK(cuEventRecord(event, second));
  OK(cuStreamWaitEvent(first, event, 0));
  OK(cuStreamEndCapture(first, &graph));
  lock.unlock();
  CUgraphExec made = nullptr;
  OK(cuGraphInstantiateWithFlags(&made, graph, 0));
  OK(cuGraphDestroy(graph));
  return made;
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

void work(const Common& common, int seed, int rounds) {
  OK(cuCtxSetCurrent(common.context));
  CUstream first = nullptr, second = nullptr, third = nullptr;  // the captured ones must not meet the legacy stream
  OK(cuStreamCreate(&first, seed % 2 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
  OK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
  OK(cuStreamCreate(&third, CU_STREAM_NON_BLOCKING));
  CUevent event = nullptr;
  OK(cuEventCreate(&event, CU_EVENT_DEFAULT));
  void* pinned = nullptr;
  OK(cuMemHostAlloc(&pinned, 4096, 0));
  CUdeviceptr kept = 0;
  OK(cuMemAlloc_v2(&kept, 8192));
  OK(cuMemsetD32_v2(kept + 4096, static_cast<unsigned>(seed), 16));
  CUdeviceptr sums = 0;
  OK(cuMemAlloc_v2(&sums, words * sizeof(unsigned)));
  OK(cuMemsetD32_v2(sums, 0, words));
  CUevent joint = nullptr;
  OK(cuEventCreate(&joint, CU_EVENT_DISABLE_TIMING));
  CUgraphExec graph = make_graph(common, second, third, joint, sums);
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
    launch(common.add, first, sums, 1);
    OK(cuGraphLaunch(graph, first));
    launch(common.add, first, sums, 4);
    OK(cuEventRecord(joint, common.stream));
    OK(cuStreamWaitEvent(second, joint, 0));
    void* parameters[] = {const_cast<CUdeviceptr*>(&common.counter)};
    OK(cuLaunchKernel(common.count, 1, 1, 1, 1, 1, 1, 0, common.stream, parameters, nullptr));
    CUresult status = cuEventQuery(joint);
    expect(status == CUDA_SUCCESS || status == CUDA_ERROR_NOT_READY, "the state of an event that others wait for");
    if (round % 8 == 7) {
      OK(cuStreamSynchronize(first));
      OK(cuGraphExecDestroy(graph));
      graph = make_graph(common, second, third, joint, sums);
    }
    OK(cuStreamSynchronize(second));
    const auto* bytes = static_cast<const unsigned char*>(pinned);
    expect(bytes[0] == value && std::memcmp(bytes, bytes + 1, 4095) == 0, "bytes that went through the device");
    if (round % 4 == 0) {
      std::lock_guard lock(capturing);
      OK(cuCtxSynchronize());
    }
    unmap(mapped);
    unsigned mark = 0;
    OK(cuMemcpyDtoH_v2(&mark, kept + 4096, sizeof mark));
    expect(mark == static_cast<unsigned>(seed), "bytes that stayed on the device");
  }
  std::vector<unsigned> seen(words);
  OK(cuStreamSynchronize(first));
  OK(cuMemcpyDtoH_v2(seen.data(), sums, words * sizeof(unsigned)));
  for (unsigned sum : seen) expect(sum == 10u * static_cast<unsigned>(rounds), "what kernels added up");
  OK(cuGraphExecDestroy(graph));
  OK(cuEventDestroy_v2(joint));
  OK(cuMemFree_v2(sums));
  OK(cuMemFree_v2(kept));
  OK(cuMemFreeHost(pinned));
  OK(cuEventDestroy_v2(event));
  OK(cuStreamDestroy_v2(first));
  OK(cuStreamDestroy_v2(second));
  OK(cuStreamDestroy_v2(third));
  --running;
}

}  // namespace

int main(int, char** arguments) {
  const int threads = std::atoi(arguments[1]), rounds = std::atoi(arguments[2]);
  OK(cuInit(0));
  Common common{};
  OK(cuDevicePrimaryCtxRetain(&common.context, 0));
  OK(cuCtxSetCurrent(common.context));
  CUmodule module = nullptr;
  OK(cuModuleLoadData(&module, text));
  OK(cuModuleGetFunction(&common.add, module, "add"));
  OK(cuModuleGetFunction(&common.count, module, "count"));
  OK(cuStreamCreate(&common.stream, CU_STREAM_NON_BLOCKING));
  OK(cuMemAlloc_v2(&common.counter, 4096));
  OK(cuMemsetD32_v2(common.counter, 0, 1));
  running = threads;
  std::vector<std::thread> workers;
  for (int seed = 1; seed <= threads; ++seed) workers.emplace_back(work, std::cref(common), seed, rounds);
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
  OK(cuCtxSynchronize());
  const auto all = static_cast<unsigned>(threads) * static_cast<unsigned>(rounds);
  unsigned counted = 0;
  OK(cuMemcpyDtoH_v2(&counted, common.counter, sizeof counted));
  expect(counted == all, "what all threads counted on one stream");
  OK(cuMemFree_v2(common.counter));
  OK(cuStreamDestroy_v2(common.stream));
  OK(cuModuleUnload(module));
  size_t unused = 0, total = 0;
  OK(cuMemGetInfo_v2(&unused, &total));
  expect(unused == total, "the free memory at the end");
  expect(callbacks == uint64_t{2} * all, "the count of callbacks");
  std::printf("%d\n", cycles);
}
