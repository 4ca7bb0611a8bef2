#include "busy.h"

#include <dlfcn.h>

#include "../../abi/cuda_driver.h"
#include "../prim/table.h"

namespace torpor::control {
namespace {

// Only the software GPU has it.
using Busy = int (*)(int ordinal, std::uint64_t* nanoseconds);

}  // namespace

void write_busy(Json& json) {
  json.key("busy_ns").array();
  void* const library = real_library();
  auto* const busy = library != nullptr ? reinterpret_cast<Busy>(::dlsym(library, "torporSimBusy")) : nullptr;
  std::uint64_t nanoseconds = 0;
  for (int ordinal = 0; busy != nullptr && busy(ordinal, &nanoseconds) == CUDA_SUCCESS; ++ordinal) json.number(nanoseconds);
  json.end_array();
}

}  // namespace torpor::control
