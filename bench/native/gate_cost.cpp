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
#include <utility>
#include <vector>

namespace {

using Short = int(void*);
using SetAttribute = int(int, int, void*, int);
using LookUp = int(const char*, void**, int, std::uint64_t, int*);
using Launch = int(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**);

constexpr int kCalls = 50000, kBatches = 400;

template <typename Function>
Function* find(void* library, const char* name) {
  void* found = dlsym(library, name);
  if (found == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::exit(1);
  }
  return reinterpret_cast<Function*>(found);
}

// Nanoseconds per call of either, in turns of a millisecond at most: the least of all batches, which what else the machine does
// can only make larger; of several threads that of the slowest.
template <typename Call>
std::pair<double, double> cost(int threads, Call native, Call ours) {
  const auto batch = [](Call call) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kCalls; ++i) call();
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    return took.count() / kCalls;
  };
  std::vector<std::pair<double, double>> least(static_cast<std::size_t>(threads), {1e9, 1e9});
  std::vector<std::thread> running;
  for (std::pair<double, double>& mine : least) {
    running.emplace_back([&] {
      for (int i = 0; i < kBatches; ++i) {
        mine.first = std::min(mine.first, batch(native));
        mine.second = std::min(mine.second, batch(ours));
      }
    });
  }
  for (std::thread& each : running) each.join();
  std::pair<double, double> worst{0, 0};  // of the threads
  for (const auto& [one, two] : least) worst = {std::max(worst.first, one), std::max(worst.second, two)};
  return worst;
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
      const auto through_pointer = [call](Function* function) { return [=] { call(function); }; };
      const auto [n, t] = cost(threads, through_pointer(native), through_pointer(through));
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
