// cuInit and what works before it.
#include "config.h"
#include "entry.h"
#include "error_texts.h"

using namespace sim;

// How a tool knows that this is the software GPU. Counts up with changes that a tool may want to know of.
extern "C" __attribute__((visibility("default"))) int torporSimVersion() { return 1; }

SIM_API(cuInit, free, (unsigned int flags), (flags)) {
  require(flags == 0);
  initialise();
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

// There are no private tables here; a library that wants one is told that this driver has none.
SIM_API(cuGetExportTable, free, (const void** table, const CUuuid* id), (table, id)) {
  require(table != nullptr && id != nullptr);
  *table = nullptr;
  fail(CUDA_ERROR_INVALID_VALUE);
}

SIM_API(cuProfilerStart, query, (), ()) {}
SIM_API(cuProfilerStop, query, (), ()) {}
