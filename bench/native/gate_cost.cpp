// Question: what does an open gate add to a driver call, beyond the jump of a pure forward?
// Target: a gated call costs at most 5 ns more than a pure forward, with one thread and with one per processor; a question
// that the job answers itself (TORPOR_VM=answers) at most 5 ns in all. The last column is such a question.
//
// The driver is this same file, compiled with GATE_COST_DRIVER: its functions return at once, so that what is measured is
// the interposer alone. "native" calls the driver's function directly, in the same run.
//
//   g++ -std=c++20 -O2 -shared -fPIC -DGATE_COST_DRIVER gate_cost.cpp -o driver.so
//   g++ -std=c++20 -O2 -pthread gate_cost.cpp -ldl -o gate_cost
//   TORPOR_REAL_LIBCUDA=./driver.so ./gate_cost path/to/interposer/libcuda.so.1
#ifdef GATE_COST_DRIVER

extern "C" int cuStreamGetId(void*) { return 0; }
extern "C" int cuCtxGetDevice(void*) { return 0; }
extern "C" int cuFuncLoad(void*) { return 0; }
extern "C" int cuLaunchKernel(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
                              void**) {
  return 0;
}

#else

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

using Short = int(void*);
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
  auto* native = find<Short>(driver, "cuStreamGetId");
  auto* forward = find<Short>(ours, "cuStreamGetId");
  auto* question = find<Short>(ours, "cuCtxGetDevice");
  auto* gated = find<Short>(ours, "cuFuncLoad");
  auto* native_launch = find<Launch>(driver, "cuLaunchKernel");
  auto* gated_launch = find<Launch>(ours, "cuLaunchKernel");
  const auto launch = [](Launch* f) { f(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr); };
  std::printf("threads  native  forward  gated  added by the gate | launch: native  gated  added | question\n");
  const int processors = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  for (const int threads : {1, processors}) {
    const double n = cost(threads, [&] { native(nullptr); });
    const double f = cost(threads, [&] { forward(nullptr); });
    const double g = cost(threads, [&] { gated(nullptr); });
    const double nl = cost(threads, [&] { launch(native_launch); });
    const double gl = cost(threads, [&] { launch(gated_launch); });
    const double q = cost(threads, [&] {
      int device;
      question(&device);
    });
    std::printf("%7d  %6.2f  %7.2f  %5.2f  %17.2f | %14.2f  %5.2f  %5.2f | %8.2f\n", threads, n, f, g, g - f, nl, gl, gl - nl, q);
  }
  return 0;
}

#endif
