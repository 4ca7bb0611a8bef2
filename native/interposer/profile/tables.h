// Where calls are counted: a table for each thread, written by that thread alone and read by whoever sums them up.
//
// A table outlives its thread with what it counted, and another thread goes on with it. Sums therefore only grow, but for a
// forked child, which starts at nothing.
#pragma once

#include <atomic>
#include <cstdint>

#include "../generated/directions.h"
#include "../generated/symbols.h"

namespace torpor::profile {

struct alignas(64) Table {
  std::uint64_t calls[kSymbols];  // first: the stubs in generated/entries.S add here
  std::uint64_t bytes[kDirections];
  std::uint64_t ticks[kSymbols];        // of the time-stamp counter, in calls that are timed
  std::atomic<std::int32_t> owner_tid;  // 0 when free
  Table* next;
};

// What all tables hold together.
struct Sums {
  std::uint64_t calls[kSymbols];
  std::uint64_t bytes[kDirections];
  std::uint64_t ticks[kSymbols];
};

// The calling thread's table; null when there is no memory for one, and the call is not counted.
Table* own_table();

// Adds up what this process has counted so far, in threads that live and in those that have ended.
void sum(Sums& into);

// How many tables there are: as many as threads were counted in at once.
std::uint32_t table_count();

// Adds to a number that only this thread writes.
inline void add(std::uint64_t& number, std::uint64_t more) {
  __atomic_store_n(&number, __atomic_load_n(&number, __ATOMIC_RELAXED) + more, __ATOMIC_RELAXED);
}

}  // namespace torpor::profile

extern "C" {
// Null before the thread's first counted call and after the last of its destructors.
extern constinit thread_local torpor::profile::Table* torpor_counts
    __attribute__((tls_model("initial-exec"), visibility("hidden")));
}
