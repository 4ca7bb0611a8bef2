// The entry of every exported function.
//
//   SIM_API(cuMemAlloc_v2, change, (CUdeviceptr* out, size_t size), (out, size)) { … }
//
// defines the function with this body; the body throws a Failure or returns. SIM_STREAM_API defines two, one for each
// meaning of the stream handle 0, and its body has a first parameter `DefaultStream zero`.
#pragma once

#include <new>
#include <exception>

#include "faults.h"
#include "process.h"

namespace sim {

enum class Effect {
  free,    // works before cuInit; takes no lock
  query,   // reads; runs under the process lock, also while a checkpoint has locked the process
  change,  // runs in a Section
  wait,    // waits for streams: makes its own Sections around the waits
};

// Throws CUDA_ERROR_NOT_INITIALIZED before cuInit and in a forked child.
void require_initialised();

template <Effect effect, typename Body>
CUresult enter(const char* symbol, Body&& body) {
  try {
    fault_point(symbol);
    if constexpr (effect != Effect::free) require_initialised();
    if constexpr (effect == Effect::query) {
      std::lock_guard lock(process().mutex);
      body();
    } else if constexpr (effect == Effect::change) {
      Section section;
      body();
    } else {
      body();
    }
    return CUDA_SUCCESS;
  } catch (const Failure& failure) {
    return failure.status;
  } catch (const std::bad_alloc&) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  } catch (const std::exception&) {
    return CUDA_ERROR_OPERATING_SYSTEM;
  }
}

}  // namespace sim

#define SIM_UNPACK(...) __VA_ARGS__

#define SIM_API(symbol, effect, params, args)                                   \
  static void symbol##_body params;                                             \
  CUresult symbol params {                                                      \
    return ::sim::enter<::sim::Effect::effect>(#symbol, [&] { symbol##_body args; }); \
  }                                                                             \
  static void symbol##_body params

#define SIM_STREAM_API(symbol, suffix, effect, params, args)                                                       \
  static void symbol##_body(::sim::DefaultStream zero, SIM_UNPACK params);                                         \
  CUresult symbol params {                                                                                         \
    return ::sim::enter<::sim::Effect::effect>(                                                                    \
        #symbol, [&] { symbol##_body(::sim::DefaultStream::legacy, SIM_UNPACK args); });                           \
  }                                                                                                                \
  CUresult symbol##suffix params {                                                                                 \
    return ::sim::enter<::sim::Effect::effect>(                                                                    \
        #symbol #suffix, [&] { symbol##_body(::sim::DefaultStream::per_thread, SIM_UNPACK args); });               \
  }                                                                                                                \
  static void symbol##_body([[maybe_unused]] ::sim::DefaultStream zero, SIM_UNPACK params)
