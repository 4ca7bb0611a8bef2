// cuInit and what works before it.
#include <cstring>

#include "activity.h"
#include "config.h"
#include "entry.h"
#include "error_texts.h"
#include "process.h"

using namespace sim;

// How a tool knows that this is the software GPU. Counts up with changes that a tool may want to know of.
extern "C" __attribute__((visibility("default"))) int torporSimVersion() { return 1; }

// How long a device has been at work for this process, in nanoseconds. CUDA_ERROR_INVALID_DEVICE where there is none.
extern "C" __attribute__((visibility("default"))) int torporSimBusy(int ordinal, uint64_t* nanoseconds) {
  Process& self = process();
  const bool known = self.initialised && ordinal >= 0 && static_cast<size_t>(ordinal) < self.devices.size();
  if (!known || nanoseconds == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *nanoseconds = static_cast<uint64_t>(busy_time(ordinal).count());
  return CUDA_SUCCESS;
}

SIM_API(cuInit, free, (unsigned int flags), (flags)) {
  require(flags == 0);
  initialise();
  load_injection();
}

SIM_API(cuDriverGetVersion, free, (int* version), (version)) {
  require(version != nullptr);
  *version = driver_version();
}

SIM_API(cuGetErrorName, free, (CUresult error, const char** out), (error, out)) {
  require(out != nullptr);
  const ErrorText* text = error_text(error);
  *out = text != nullptr ? text->name : nullptr;
  require(text != nullptr);
}

SIM_API(cuGetErrorString, free, (CUresult error, const char** out), (error, out)) {
  require(out != nullptr);
  const ErrorText* text = error_text(error);
  *out = text != nullptr ? text->description : nullptr;
  require(text != nullptr);
}

// There is one private table here, for a library of our own; one that wants another is told that this driver has none.
SIM_API(cuGetExportTable, free, (const void** table, const CUuuid* id), (table, id)) {
  require(table != nullptr && id != nullptr);
  *table = nullptr;
  if (std::memcmp(id, &activity_table_id, sizeof *id) == 0) {
    *table = &activity_table();
    return;
  }
  fail(CUDA_ERROR_INVALID_VALUE);
}

SIM_API(cuProfilerStart, query, (), ()) {}
SIM_API(cuProfilerStop, query, (), ()) {}
