// A job under load: threads that allocate, launch, synchronise, poll, load modules, switch contexts and exit, at random, and
// check every result. Whatever is done to the job meanwhile, it must not notice.
//
// Usage: load THREADS FILE. Runs until FILE is there. Prints "rounds N" a few times a second and "rounds N lives M" at the
// end; exits with 1 at the first wrong value or failing call.
//
//   g++ -std=c++20 -O2 -pthread load.cpp -ldl -o load
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "../../../native/abi/cuda_driver.h"

namespace {

constexpr char kKernel[] = R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry add(.param .u64 memory, .param .u32 count, .param .u32 value) {
  .reg .pred %p;
  .reg .b32 %r<8>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [memory];
  ld.param.u32 %r1, [count];
  ld.param.u32 %r2, [value];
  mov.u32 %r3, %ctaid.x;
  mov.u32 %r4, %ntid.x;
  mov.u32 %r5, %tid.x;
  mad.lo.s32 %r6, %r3, %r4, %r5;
  setp.ge.u32 %p, %r6, %r1;
  @%p bra done;
  cvta.to.global.u64 %rd1, %rd1;
  mul.wide.u32 %rd2, %r6, 4;
  add.s64 %rd1, %rd1, %rd2;
  ld.global.u32 %r7, [%rd1];
  add.s32 %r7, %r7, %r2;
  st.global.u32 [%rd1], %r7;
done:
  ret;
}
)";

std::atomic<bool> g_stop{false};
std::atomic<unsigned long> g_rounds{0};
std::atomic<unsigned long> g_lives{0};

void* find(const char* name) {
  static void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW);
  void* const found = driver != nullptr ? ::dlsym(driver, name) : nullptr;
  if (found == nullptr) {
    std::fprintf(stderr, "%s\n", ::dlerror());
    std::_Exit(1);
  }
  return found;
}

void check(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  std::fprintf(stderr, "%s returned %d\n", call, static_cast<int>(result));
  std::_Exit(1);
}

// Calls a driver function by name, which must succeed.
#define CALL(function, ...)                                                            \
  do {                                                                                 \
    static const auto call_ = reinterpret_cast<decltype(&function)>(find(#function));  \
    check(call_(__VA_ARGS__), #function);                                              \
  } while (false)

class Life {
 public:
  Life(CUcontext context, CUfunction shared, unsigned seed) : context_(context), kernel_(shared), random_(seed) {
    CALL(cuCtxPushCurrent_v2, context_);
    CALL(cuStreamCreate, &stream_, CU_STREAM_NON_BLOCKING);
    CALL(cuEventCreate, &event_, CU_EVENT_DISABLE_TIMING);
    if (one_in(4)) {
      CALL(cuModuleLoadData, &module_, kKernel);
      CALL(cuModuleGetFunction, &kernel_, module_, "add");
    }
    count_ = 1 + random_() % (one_in(8) ? 1U << 20 : 20000U);
    CALL(cuMemAlloc_v2, &memory_, count_ * sizeof(unsigned));
    CALL(cuMemsetD32Async, memory_, expected_, count_, stream_);
  }

  ~Life() {
    verify(0, count_);
    CALL(cuMemFree_v2, memory_);
    if (module_ != nullptr) CALL(cuModuleUnload, module_);
    CALL(cuEventDestroy_v2, event_);
    CALL(cuStreamDestroy_v2, stream_);
    CUcontext popped = nullptr;
    CALL(cuCtxPopCurrent_v2, &popped);
    if (popped != context_) fail("another context was current at the end");
  }

  Life(const Life&) = delete;
  Life& operator=(const Life&) = delete;

  void round() {
    switch (random_() % 8) {
      case 0:
      case 1:
      case 2: launch(); break;
      case 3: CALL(cuStreamSynchronize, stream_); break;
      case 4: poll(); break;
      case 5: there_and_back(); break;
      case 6: ordered(); break;
      default: verify(random_() % count_, 64); break;
    }
    g_rounds.fetch_add(1, std::memory_order_relaxed);
  }

 private:
  [[noreturn]] static void fail(const std::string& what) {
    std::fprintf(stderr, "%s\n", what.c_str());
    std::_Exit(1);
  }

  bool one_in(unsigned n) { return random_() % n == 0; }

  void launch() {
    unsigned value = random_() % 1000;
    unsigned count = static_cast<unsigned>(count_);
    void* parameters[] = {&memory_, &count, &value};
    CALL(cuLaunchKernel, kernel_, (count + 255) / 256, 1, 1, 256, 1, 1, 0, stream_, parameters, nullptr);
    expected_ += value;
  }

  void poll() {
    static const auto query = reinterpret_cast<decltype(&cuEventQuery)>(find("cuEventQuery"));
    CALL(cuEventRecord, event_, stream_);
    CUresult result;
    while ((result = query(event_)) == CUDA_ERROR_NOT_READY) std::this_thread::yield();
    check(result, "cuEventQuery");
  }

  // A copy of the buffer in memory of its own, and back.
  void there_and_back() {
    const std::size_t size = count_ * sizeof(unsigned);
    CUdeviceptr other = 0;
    CALL(cuCtxPushCurrent_v2, context_);
    CALL(cuMemAlloc_v2, &other, size);
    CALL(cuMemcpyDtoDAsync_v2, other, memory_, size, stream_);
    CALL(cuMemsetD8Async, memory_, 0x5a, size, stream_);
    CALL(cuMemcpyDtoDAsync_v2, memory_, other, size, stream_);
    CALL(cuStreamSynchronize, stream_);
    CALL(cuMemFree_v2, other);
    CUcontext popped = nullptr;
    CALL(cuCtxPopCurrent_v2, &popped);
  }

  void ordered() {
    CUdeviceptr other = 0;
    CALL(cuMemAllocAsync, &other, 4096, stream_);
    CALL(cuMemsetD32Async, other, expected_, 1024, stream_);
    CALL(cuMemcpyDtoDAsync_v2, memory_, other, sizeof(unsigned), stream_);
    CALL(cuMemFreeAsync, other, stream_);
  }

  void verify(std::size_t first, std::size_t count) {
    count = std::min(count, count_ - first);
    std::vector<unsigned> found(count);
    CALL(cuMemcpyDtoHAsync_v2, found.data(), memory_ + first * sizeof(unsigned), count * sizeof(unsigned), stream_);
    CALL(cuStreamSynchronize, stream_);
    for (std::size_t i = 0; i < count; ++i) {
      if (found[i] == expected_) continue;
      fail("element " + std::to_string(first + i) + " of " + std::to_string(count_) + " is " +
           std::to_string(found[i]) + ", not " + std::to_string(expected_));
    }
  }

  CUcontext context_;
  CUfunction kernel_;
  std::mt19937 random_;
  CUstream stream_ = nullptr;
  CUevent event_ = nullptr;
  CUmodule module_ = nullptr;
  CUdeviceptr memory_ = 0;
  std::size_t count_ = 0;
  unsigned expected_ = 7;
};

// Keeps one thread alive after another.
void keep_living(CUcontext context, CUfunction kernel, unsigned seed) {
  std::mt19937 random(seed);
  while (!g_stop) {
    std::thread([&] {
      Life life(context, kernel, random());
      for (unsigned left = 1 + random() % 300; left != 0 && !g_stop; --left) life.round();
    }).join();
    g_lives.fetch_add(1, std::memory_order_relaxed);
  }
}

}  // namespace

int main(int, char** words) {
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;
  CALL(cuInit, 0);
  CALL(cuDevicePrimaryCtxRetain, &context, 0);
  CALL(cuCtxSetCurrent, context);
  CALL(cuModuleLoadData, &module, kKernel);
  CALL(cuModuleGetFunction, &kernel, module, "add");
  std::vector<std::thread> threads;
  for (int i = 0; i < std::atoi(words[1]); ++i) threads.emplace_back(keep_living, context, kernel, 1000U + i);
  while (::access(words[2], F_OK) != 0) {
    std::cout << "rounds " << g_rounds.load() << std::endl;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  g_stop = true;
  for (std::thread& thread : threads) thread.join();
  std::cout << "rounds " << g_rounds.load() << " lives " << g_lives.load() << std::endl;
  return 0;
}
