// Every symbol of the driver, each as a function that answers CUDA_ERROR_NOT_SUPPORTED. They are weak: a call that
// this library has is defined elsewhere and takes the place of its entry here, so no list of either kind is kept.
#include <cstring>

#include "entry_check.h"
#include "symbols.h"

#define IN_MISSING __attribute__((section("torpor_missing"), weak, visibility("default")))

extern "C" {

#define TORPOR_EXPORT(symbol) \
  IN_MISSING int symbol() { return sim::answer_missing(#symbol); }
#define TORPOR_EXPORT_UNTYPED(symbol) TORPOR_EXPORT(symbol)
#include "abi/symbols.inc"
#undef TORPOR_EXPORT
#undef TORPOR_EXPORT_UNTYPED

// The bounds of the section, from the linker.
extern const char __start_torpor_missing[] __attribute__((visibility("hidden")));
extern const char __stop_torpor_missing[] __attribute__((visibility("hidden")));

// The names of what is missing, in order, for tools and tests: null after the last.
__attribute__((visibility("default"))) const char* torporSimMissing(unsigned index) {
  static const struct {
    const char* name;
    int (*function)();
  } all[] = {
#define TORPOR_EXPORT(symbol) {#symbol, symbol},
#define TORPOR_EXPORT_UNTYPED(symbol) TORPOR_EXPORT(symbol)
#include "abi/symbols.inc"
  };
  for (const auto& entry : all)
    if (sim::is_missing(reinterpret_cast<const void*>(entry.function)) && index-- == 0) return entry.name;
  return nullptr;
}

}  // extern "C"

bool sim::is_missing(const void* function) {
  const char* at = static_cast<const char*>(function);
  return at >= __start_torpor_missing && at < __stop_torpor_missing;
}
