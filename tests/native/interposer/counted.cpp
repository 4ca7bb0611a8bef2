// Makes known numbers of driver calls by every way, as told by lines on standard input; answers each with "done".
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "fake_driver.h"

namespace {

using Launch = decltype(cuLaunchKernel);
using Lookup = decltype(cuGetProcAddress_v2);

void launch(Launch* function, int times) {
  for (int i = 0; i < times; ++i) CHECK(function(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr) == CUDA_SUCCESS);
}

// Nine stack arguments' worth of a call, and a floating-point one: what a stub must not touch.
void with_arguments(int times) {
  for (int i = 0; i < times; ++i) {
    CHECK(cuParamSetf(nullptr, i, 0.5F + static_cast<float>(i)) == CUDA_SUCCESS);
    void* params[] = {nullptr};
    auto* const function = reinterpret_cast<CUfunction>(0x1122334455667788ULL);
    CHECK(cuLaunchKernel(function, 1, 2, 3, 4, 5, 6, 7, nullptr, params, nullptr) == CUDA_SUCCESS);
    const void* table = nullptr;
    CHECK(cuGetExportTable(&table, &kFakeTable) == CUDA_SUCCESS);
    const auto& state = *static_cast<const FakeState*>(table);
    CHECK(state.parameter == 0.5F + static_cast<float>(i) && state.parameter_offset == i);
    CHECK(state.launch_arguments[9] == reinterpret_cast<std::uint64_t>(params) && state.launch_arguments[7] == 7);
  }
}

// All at once: none ends before each has made its first call.
void in_threads(int threads, int times) {
  std::atomic<int> begun{0};
  std::vector<std::thread> running;
  for (int t = 0; t < threads; ++t) {
    running.emplace_back([&] {
      launch(cuLaunchKernel, 1);
      ++begun;
      while (begun.load() < threads) std::this_thread::yield();
      launch(cuLaunchKernel, times - 1);
    });
  }
  for (std::thread& each : running) each.join();
}

struct AtEnd {
  ~AtEnd() { launch(cuLaunchKernel, 1); }
};

}  // namespace

int main() {
  std::string word;
  int count = 0;
  // What was looked up stays what it is, whether calls are counted then or later.
  void* handle = dlopen("libcuda.so.1", RTLD_NOW);
  CHECK(handle != nullptr);
  auto* const found = reinterpret_cast<Launch*>(dlsym(handle, "cuLaunchKernel"));
  auto* const lookup = reinterpret_cast<Lookup*>(dlsym(handle, "cuGetProcAddress_v2"));
  void *launch_handed = nullptr, *fill_handed = nullptr, *question_handed = nullptr;
  CHECK(lookup("cuLaunchKernel", &launch_handed, 12000, 0, nullptr) == CUDA_SUCCESS);
  CHECK(lookup("cuMemsetD8", &fill_handed, 12000, 0, nullptr) == CUDA_SUCCESS);
  CHECK(lookup("cuGetErrorName", &question_handed, 12000, 0, nullptr) == CUDA_SUCCESS);
  static AtEnd* last = nullptr;
  while (std::cin >> word >> count) {
    if (word == "init") {
      for (int i = 0; i < count; ++i) CHECK(cuInit(0) == CUDA_SUCCESS);
    } else if (word == "link") {
      launch(cuLaunchKernel, count);
    } else if (word == "dlsym") {
      launch(found, count);
    } else if (word == "lookup") {
      launch(reinterpret_cast<Launch*>(launch_handed), count);
    } else if (word == "internal") {
      for (int i = 0; i < count; ++i) {
        CHECK(reinterpret_cast<decltype(cuMemsetD8_v2)*>(fill_handed)(0, 0, 100) == CUDA_SUCCESS);
      }
    } else if (word == "question") {
      const char* name = nullptr;
      for (int i = 0; i < count; ++i) {
        CHECK(reinterpret_cast<decltype(cuGetErrorName)*>(question_handed)(CUDA_SUCCESS, &name) == CUDA_SUCCESS);
      }
    } else if (word == "arguments") {
      with_arguments(count);
    } else if (word == "threads") {
      in_threads(count, 50);
    } else if (word == "destructor") {  // a thread whose destructors call the driver
      for (int i = 0; i < count; ++i) {
        std::thread([] {
          static thread_local AtEnd end;
          launch(cuLaunchKernel, 1);
          static_cast<void>(&end);
        }).join();
      }
    } else if (word == "fork") {
      const pid_t child = fork();
      if (child == 0) {
        launch(cuLaunchKernel, count);
        std::exit(0);
      }
      int status = -1;
      CHECK(waitpid(child, &status, 0) == child && status == 0);
    } else if (word == "at_exit") {
      last = new AtEnd;
      CHECK(std::atexit([] { delete last; }) == 0);
    } else {
      CHECK(word == "abrupt");
      _exit(0);
    }
    std::cout << "done" << std::endl;
  }
  return 0;
}
