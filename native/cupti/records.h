// What is used of CUPTI's activity interface, as its documentation describes it.
//
// Records have grown from version to version at their ends only; the beginnings below are those of all versions that a
// driver of today takes (kernels: CUpti_ActivityKernel4 and later).
#pragma once

#include <cstddef>
#include <cstdint>

namespace torpor::cupti {

enum Kind : std::uint32_t {
  kCopy = 1,
  kFill = 2,
  kKernel = 3,
  kConcurrentKernel = 10,  // as kKernel, and kernels run at the same time as they would without it
  kPeerCopy = 22,
};

struct Record {
  std::uint32_t kind;
};

// Times are nanoseconds of a clock of CUPTI's own; 0 where there is none.
struct Kernel {
  std::uint32_t kind;
  std::uint32_t settings[3];
  std::uint64_t start, end, completed;
  std::uint32_t device, context, stream;
  std::int32_t grid[3], block[3], shared[2];
  std::uint32_t local[2], correlation;
  std::int64_t number;
  const char* name;  // mangled
};
static_assert(offsetof(Kernel, start) == 16 && offsetof(Kernel, device) == 40 && offsetof(Kernel, name) == 104);

// A copy, also between two devices.
struct Copy {
  std::uint32_t kind;
  std::uint8_t direction, from, to, flags;
  std::uint64_t bytes, start, end;
  std::uint32_t device;
};
static_assert(offsetof(Copy, bytes) == 8 && offsetof(Copy, start) == 16 && offsetof(Copy, device) == 32);

struct Fill {
  std::uint32_t kind, value;
  std::uint64_t bytes, start, end;
  std::uint32_t device;
};
static_assert(offsetof(Fill, bytes) == 8 && offsetof(Fill, start) == 16 && offsetof(Fill, device) == 32);

using Status = int;
constexpr Status kDone = 0, kNoMoreRecords = 12;

// CUPTI asks for an empty buffer, and gives one back when it is full or flushed.
using Requested = void (*)(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records);
using Completed = void (*)(void* context, std::uint32_t stream, std::uint8_t* buffer, std::size_t size, std::size_t valid);

constexpr std::uint32_t kFinished = 0, kAll = 1;  // what `flush_all` hands out: buffers of finished records, or all

}  // namespace torpor::cupti
