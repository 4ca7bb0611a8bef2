// Question: what does the interposer add to a driver call, by the way that the call takes through it?
// Target: a gated call costs at most 5 ns more than the driver's function, with one thread and with one per processor; a
// question that the job answers itself (TORPOR_VM=answers) at most 5 ns in all.
//
// The driver is this same file, compiled with GATE_COST_DRIVER: its functions return at once, so that what is measured is
// the interposer alone. "native" calls the driver's function directly, in the same run.
//
//   g++ -std=c++20 -O2 -shared -fPIC -DGATE_COST_DRIVER gate_cost.cpp -o driver.so
//   g++ -std=c++20 -O2 -pthread gate_cost.cpp -ldl -o gate_cost
//   TORPOR_REAL_LIBCUDA=./driver.so ./gate_cost path/to/interposer/libcuda.so.1
#ifdef GATE_COST_DRIVER

#include <cstdint>

extern "C" int cuStreamGetId(void*) { return 0; }
extern "C" int cuCtxGetDevice(void*) { return 0; }
extern "C" int cuFuncLoad(void*) { return 0; }
extern "C" int cuStreamSynchronize(void*) { return 0; }
extern "C" int cuKernelSetAttribute(int, int, void*, int) { return 0; }
extern "C" int cuLaunchKernel(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
                              void**) {
  return 0;
}
extern "C" int cuGetProcAddress_v2(const char*, void** out, int, std::uint64_t, int* status) {
  *out = reinterpret_cast<void*>(cuLaunchKernel);
  *status = 0;
  return 0;
}

#else

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

using Short = int(void*);
using SetAttribute = int(int, int, void*, int);
using LookUp = int(const char*, void**, int, std::uint64_t, int*);
using Launch = int(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**);

constexpr int kCalls = 2000000;
constexpr int kBatches = 15;

template <typename Function>
Function* find(void* library, const char* name) {
  void* found = dlsym(library, name);
  if (found == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::exit(1);
  }
  return reinterpret_cast<Function*>(found);
}

// Nanoseconds per call: the median over batches; with several threads, of each thread's own time.
template <typename Call>
double cost(int threads, Call call) {
  std::vector<double> batches(static_cast<std::size_t>(threads) * kBatches);
  std::vector<std::thread> running;
  for (int t = 0; t < threads; ++t) {
    running.emplace_back([&, t] {
      for (int batch = 0; batch < kBatches; ++batch) {
        const auto start = std::chrono::steady_clock::now();
        for (int i = 0; i < kCalls; ++i) call();
        const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
        batches[static_cast<std::size_t>(t) * kBatches + batch] = took.count() / kCalls;
      }
    });
  }
  for (std::thread& each : running) each.join();
  std::nth_element(batches.begin(), batches.begin() + batches.size() / 2, batches.end());
  return batches[batches.size() / 2];
}

}  // namespace

int main(int count, char** words) {
  const char* driver_path = std::getenv("TORPOR_REAL_LIBCUDA");
  if (count != 2 || driver_path == nullptr) {
    std::fprintf(stderr, "usage: TORPOR_REAL_LIBCUDA=DRIVER gate_cost INTERPOSER\n");
    return 2;
  }
  void* ours = dlopen(words[1], RTLD_NOW);
  void* driver = dlopen(driver_path, RTLD_NOW);
  if (ours == nullptr || driver == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  const int processors = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  std::printf("| way | call | threads | native ns | ours | added |\n| --- | --- | --- | --- | --- | --- |\n");
  const auto row = [&]<typename Function>(const char* way, const char* name, Function*, auto call) {
    auto* const native = find<Function>(driver, name);
    auto* const through = find<Function>(ours, name);
    for (const int threads : {1, processors}) {
      const double n = cost(threads, [&] { call(native); });
      const double t = cost(threads, [&] { call(through); });
      std::printf("| %s | %s | %d | %.2f | %.2f | %.2f |\n", way, name, threads, n, t, t - n);
    }
  };
  constexpr Short* kShort = nullptr;
  const auto shortly = [](Short* f) { f(nullptr); };
  row("forward", "cuStreamGetId", kShort, shortly);
  row("question", "cuCtxGetDevice", kShort, [](Short* f) {
    int device;
    f(&device);
  });
  row("gate", "cuFuncLoad", kShort, shortly);
  row("wait", "cuStreamSynchronize", kShort, shortly);
  row("set", "cuKernelSetAttribute", static_cast<SetAttribute*>(nullptr), [](SetAttribute* f) { f(8, 1024, nullptr, 0); });
  row("launch", "cuLaunchKernel", static_cast<Launch*>(nullptr),
      [](Launch* f) { f(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr); });
  row("look-up", "cuGetProcAddress_v2", static_cast<LookUp*>(nullptr), [](LookUp* f) {
    void* found;
    int status;
    f("cuLaunchKernel", &found, 12000, 0, &status);
  });
  return 0;
}

#endif
