#include "profile.h"

#include <x86intrin.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "../prim/entries.h"
#include "../prim/thread.h"
#include "counted.h"
#include "tables.h"

extern "C" __attribute__((visibility("hidden"))) void* const torpor_counting[];

namespace torpor::profile {
namespace {

constexpr std::uint32_t kFirstLeaseMs = 60'000;
constexpr std::uint32_t kLeaseAfterWakingMs = 10'000;

constinit std::atomic<Level> current{Level::off};
constinit std::atomic<std::uint64_t> owner{0};
constinit std::uint64_t lease_end = 0;  // of CLOCK_MONOTONIC, in microseconds; 0: none runs yet
constinit std::atomic<bool> ever{false};

// The time-stamp counter against the clock.
struct Instant {
  std::uint64_t ticks, microseconds;
};
constinit Instant base{0, 0};

Instant instant() { return {__rdtsc(), thread::monotonic_microseconds()}; }

// Made when they are first wanted; whoever makes them writes the same.
void* stubs_of[2][kSymbols];

void* const* stubs(Level level) {
  if (level == Level::off) return nullptr;
  void** const counts = stubs_of[0];
  void** const times = stubs_of[1];
  static constinit std::atomic<bool> filled{false};
  if (!filled.load(std::memory_order_acquire)) {
    std::memcpy(counts, torpor_counting, sizeof stubs_of[0]);
    std::memcpy(times, torpor_counting, sizeof stubs_of[1]);
    for (const Typed* typed = kTyped; typed != kTyped + kTypedCount; ++typed) {
      const auto index = static_cast<std::uint32_t>(typed->symbol);
      if (typed->counts != nullptr) counts[index] = times[index] = typed->counts;
      if (typed->times != nullptr) times[index] = typed->times;
    }
    filled.store(true, std::memory_order_release);
  }
  return level == Level::times ? times : counts;
}

void note_start(Level level) {
  base = instant();
  ever.store(true, std::memory_order_relaxed);
  current.store(level, std::memory_order_relaxed);
}

void stop() {
  entries::route(nullptr);
  current.store(Level::off, std::memory_order_relaxed);
  lease_end = 0;
  owner.store(0, std::memory_order_relaxed);
}

double nanoseconds_per_tick() {
  constexpr std::uint64_t kLongEnough = 2'000;
  Instant now = instant();
  while (now.microseconds - base.microseconds < kLongEnough) {
    thread::sleep_microseconds(kLongEnough);
    now = instant();
  }
  return 1e3 * static_cast<double>(now.microseconds - base.microseconds) / static_cast<double>(now.ticks - base.ticks);
}

const char* name_of(Level level) {
  return level == Level::times ? "times" : level == Level::counts ? "counts" : "off";
}

}  // namespace

void* const* stubs_at_start() {
  const char* const setting = std::getenv("TORPOR_PROFILE");
  if (setting == nullptr) return nullptr;
  const std::string_view all = setting;
  const std::string_view word = all.substr(0, all.find(':'));
  const Level wanted = word == "times" ? Level::times : word == "counts" ? Level::counts : Level::off;
  if (wanted == Level::off) return nullptr;
  std::uint64_t who = 0;
  if (word.size() < all.size()) std::from_chars(all.data() + word.size() + 1, all.data() + all.size(), who);
  owner.store(who, std::memory_order_relaxed);
  if (current.load(std::memory_order_relaxed) == Level::off) note_start(wanted);
  return stubs(wanted);
}

Level level() { return current.load(std::memory_order_relaxed); }

bool set_level(Level wanted, std::uint64_t who, std::uint32_t lease_ms) {
  expire();
  if (level() != Level::off && owner.load(std::memory_order_relaxed) != who) return false;
  if (wanted == Level::off) {
    if (level() != Level::off) stop();
    return true;
  }
  if (level() == Level::off) note_start(wanted);
  current.store(wanted, std::memory_order_relaxed);
  owner.store(who, std::memory_order_relaxed);
  lease_end = thread::monotonic_microseconds() + std::uint64_t{lease_ms} * 1000;
  entries::route(stubs(wanted));
  return true;
}

void listening() {
  if (level() != Level::off) lease_end = thread::monotonic_microseconds() + std::uint64_t{kFirstLeaseMs} * 1000;
}

int lease_left() {
  if (level() == Level::off || lease_end == 0) return -1;
  const std::uint64_t now = thread::monotonic_microseconds();
  return lease_end > now ? static_cast<int>((lease_end - now + 999) / 1000) : 0;
}

void expire() {
  if (lease_left() == 0) stop();
}

void frozen() { lease_end = 0; }

void woken() {
  base = instant();
  if (level() != Level::off) lease_end = base.microseconds + std::uint64_t{kLeaseAfterWakingMs} * 1000;
}

void write_counts(control::Json& json) {
  Sums sums;  // not shared: a process may end while the control thread answers
  sum(sums);
  json.field("level", name_of(level())).key("lease_ms").number(std::int64_t{lease_left()});
  json.field("clock_ns", thread::monotonic_microseconds() * 1000).field("threads", std::uint64_t{table_count()});
  json.key("calls").object();
  for (std::uint32_t i = 0; i < kSymbols; ++i) {
    if (sums.calls[i] != 0) json.field(kSymbolNames[i], sums.calls[i]);
  }
  json.end_object().key("bytes").object();
  for (std::uint32_t i = 0; i < kDirections; ++i) json.field(kDirectionNames[i], sums.bytes[i]);
  json.end_object().key("nanoseconds").object();
  const bool timed = std::any_of(sums.ticks, sums.ticks + kSymbols, [](std::uint64_t ticks) { return ticks != 0; });
  const double scale = timed ? nanoseconds_per_tick() : 0;
  for (std::uint32_t i = 0; timed && i < kSymbols; ++i) {
    const auto spent = static_cast<std::uint64_t>(static_cast<double>(sums.ticks[i]) * scale);
    if (sums.ticks[i] != 0) json.field(kSymbolNames[i], spent);
  }
  json.end_object();
}

bool anything_counted() {
  if (!ever.load(std::memory_order_relaxed)) return false;
  Sums sums;
  sum(sums);
  return std::any_of(sums.calls, sums.calls + kSymbols, [](std::uint64_t calls) { return calls != 0; });
}

}  // namespace torpor::profile
