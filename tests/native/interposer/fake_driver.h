// What the fake driver saw; a test program gets it through cuGetExportTable.
#pragma once

#include <atomic>
#include <cstdint>

#include "../../../native/abi/cuda_driver.h"

struct FakeState {
  std::atomic<std::uint64_t> launches;            // cuLaunchKernel and its per-thread-stream form
  std::atomic<std::uint64_t> per_thread_launches;
  std::atomic<std::uint64_t> internal_fills;      // the fill that only cuGetProcAddress hands out
  std::atomic<std::uint64_t> old_fills;           // and the one that it hands out for older versions
  std::atomic<std::uint64_t> look_ups;            // cuGetProcAddress, both versions
  std::atomic<std::uint64_t> initialised;
  std::atomic<std::uint32_t> block;               // while 1, cuModuleLoadData and cuStreamSynchronize do not return
  std::atomic<std::uint32_t> blocked;             // how many calls are in that state
  std::atomic<std::uint32_t> fail;                // while 1, calls that make or destroy something fail
  std::atomic<std::uint32_t> still_capturing;     // what cuStreamIsCapturing says
  std::atomic<std::uint64_t> managed_alive;       // the one managed pointer that has not been freed
  std::uint64_t handles;                          // how many handles were made
  std::uint64_t launch_arguments[11];
  float parameter;
  std::int32_t parameter_offset;
  CUmemLocation location;
  CUipcMemHandle ipc;
  CUeglFrame frame;
};

// The table's key; libraries ask the real driver for tables in the same way.
inline constexpr CUuuid kFakeTable = {{'f', 'a', 'k', 'e'}};
