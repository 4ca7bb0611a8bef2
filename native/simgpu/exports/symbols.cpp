// cuGetProcAddress.
#include "symbols.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "entry.h"
#include "entry_check.h"

namespace sim {

int answer_missing(const char* symbol) {
  return enter<Effect::query>(symbol, [] { fail(CUDA_ERROR_NOT_SUPPORTED); });
}

namespace {

struct Answer {
  const char* base;
  int since;
  void* symbol;
  void* per_thread;  // null: that mode has none at this version
};

constexpr void* TORPOR_NONE = nullptr;
template <typename Function>
void* address(Function* function) {
  return reinterpret_cast<void*>(function);
}
[[maybe_unused]] void* address(void* none) { return none; }

const Answer answers[] = {
#define TORPOR_ANSWER(base, since, symbol, per_thread) {#base, since, address(symbol), address(per_thread)},
#include "abi/symbols.inc"
#undef TORPOR_ANSWER
};

CUdriverProcAddressQueryResult look_up(const char* name, int version, cuuint64_t flags, void** out) {
  require(name != nullptr && out != nullptr && *name != '\0');
  constexpr cuuint64_t known = CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  require((flags & ~known) == 0 && flags != known);
  *out = nullptr;
  auto named = [&](const Answer& answer) { return std::strcmp(answer.base, name) == 0; };
  const Answer* row = std::find_if(std::begin(answers), std::end(answers), named);
  if (row == std::end(answers)) return CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  const Answer* chosen = nullptr;
  for (; row != std::end(answers) && named(*row); ++row) {
    void* function = flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM ? row->per_thread : row->symbol;
    if (row->since > version || row->since > driver_version() || function == nullptr) continue;
    chosen = row;
    *out = function;
  }
  return chosen != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
}

}  // namespace

}  // namespace sim

using namespace sim;

SIM_API(cuGetProcAddress_v2, free,
        (const char* name, void** out, int version, cuuint64_t flags, CUdriverProcAddressQueryResult* status),
        (name, out, version, flags, status)) {
  CUdriverProcAddressQueryResult result = look_up(name, version, flags, out);
  if (status != nullptr) *status = result;
  require(status != nullptr || result == CU_GET_PROC_ADDRESS_SUCCESS, CUDA_ERROR_NOT_FOUND);
}

SIM_API(cuGetProcAddress, free, (const char* name, void** out, int version, cuuint64_t flags),
        (name, out, version, flags)) {
  require(look_up(name, version, flags, out) == CU_GET_PROC_ADDRESS_SUCCESS, CUDA_ERROR_NOT_FOUND);
}
