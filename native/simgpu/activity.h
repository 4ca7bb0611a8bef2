// Who is told of each kernel, copy and fill that has run: a tools' library (tools/), which takes the place that CUPTI has
// beside the real driver, and finds us by the private table that this declares.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "abi.h"

namespace sim {

class Stream;

enum class ActivityKind : uint32_t { kernel, copy, fill };

// Where a copy begins or ends.
enum class Place : uint32_t { host, device, other_device };

struct Activity {
  ActivityKind kind;
  std::string name = {};  // a kernel's, as its module has it
  Place from = Place::host, to = Place::host;
  uint64_t bytes = 0;
};

// What the listener gets, for the time of the call. Times are nanoseconds of the steady clock.
struct Ran {
  ActivityKind kind;
  const char* name;
  Place from, to;
  uint64_t bytes, begun, ended;
  int ordinal;
};
using Listener = void (*)(const Ran&);  // in the stream's thread, with no lock held; throws nothing

struct ActivityTable {
  size_t size;
  void (*listen)(Listener listener);  // to what is submitted from now on
};
// Made up, as the real driver's are.
inline constexpr CUuuid activity_table_id{{0x54, 0x52, 0x50, 0x52, 0x61, 0x63, 0x74, 0x69, 0x76, 0x69, 0x74, 0x79, 0, 0, 0, 1}};
const ActivityTable& activity_table();

// `run`, and the listener is told when it has run; `run` itself where nobody listens.
std::function<void(Stream&)> told(Activity what, std::function<void(Stream&)> run);

// Loads the library that CUDA_INJECTION64_PATH names, once, and calls its InitializeInjection, as the driver does. Without
// a lock, after initialisation: the library calls the driver. What goes wrong in it is not the program's affair.
void load_injection();

}  // namespace sim
