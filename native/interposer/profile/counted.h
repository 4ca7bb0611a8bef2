// Stubs that see a call's arguments or its end: for calls that move bytes, and for calls that are timed.
#pragma once

#include <x86intrin.h>

#include "../prim/entries.h"
#include "moved.h"
#include "tables.h"

namespace torpor::profile {

template <Symbol kSymbol, bool kTimes, typename Moved, typename Signature>
struct Counted;

template <Symbol kSymbol, bool kTimes, typename Moved, typename... Arguments>
struct Counted<kSymbol, kTimes, Moved, CUresult(Arguments...)> {
  static CUresult call(Arguments... arguments) {
    constexpr auto index = static_cast<std::uint32_t>(kSymbol);
    auto* const next = reinterpret_cast<CUresult (*)(Arguments...)>(entries::target(kSymbol));
    Table* const table = own_table();
    if (table == nullptr) [[unlikely]] return next(arguments...);
    add(table->calls[index], 1);
    const std::uint64_t begun = kTimes ? __rdtsc() : 0;
    const CUresult result = next(arguments...);
    if constexpr (kTimes) {
      // A process that slept in an image may wake where the counter stands elsewhere.
      if (const std::uint64_t ended = __rdtsc(); ended > begun) add(table->ticks[index], ended - begun);
    }
    if (result == CUDA_SUCCESS) Moved::note(*table, arguments...);
    return result;
  }
};

// The typed stubs of a symbol; null where the stub that only counts will do.
struct Typed {
  Symbol symbol;
  void* counts;
  void* times;
};
extern const Typed kTyped[];
extern const std::uint32_t kTypedCount;

}  // namespace torpor::profile
