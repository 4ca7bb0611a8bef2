#include "policy.h"

#include <bit>
#include <cstdlib>
#include <string_view>

#include "../prim/barrier.h"
#include "../prim/thread.h"
#include "comparison.h"

namespace torpor::vm {
namespace detail {

constinit std::atomic<Mode> mode{Mode::unread};

}  // namespace detail

namespace {

using detail::Mode;

constexpr std::uint32_t kShortRest = 1U << 12, kLongRest = 1U << 20;  // calls that go straight before the next attempt

constinit std::atomic<bool> always{false}, merging{false};
constinit std::atomic<bool> looked_at{false};  // recordings of events, though nothing may be deferred
constinit std::atomic<std::uint32_t> rest{0};  // calls left of the present rest
constinit std::atomic<std::uint32_t> next_rest{kShortRest};
constinit std::atomic<std::uint64_t> devices{0};  // with contexts, by ordinal

// A rest for a comparison: its second half is timed, since in its first what is in the queue has to end.
constexpr std::uint32_t kStretch = 512;
constinit Comparison comparison;  // judge()'s
constinit std::atomic<bool> comparing{false};
constinit std::atomic<std::uint64_t> stretch_began{0}, stretch_ns{0};  // when, and what a call of it took

bool several_devices() { return std::popcount(devices.load()) > 1; }

// A second processor must be there for the submitter.
bool processor_to_spare() { return thread::processors() > 1; }

Mode chosen() {
  const char* const value = std::getenv("TORPOR_VM");
  const std::string_view setting = value != nullptr ? value : "";
  always.store(setting.starts_with("always"), std::memory_order_relaxed);
  merging.store(setting == "full" || setting == "always-full", std::memory_order_relaxed);
  if (setting != "defer" && setting != "full" && setting != "always" && setting != "always-full") return Mode::off;
  return setting.starts_with("always") || processor_to_spare() ? Mode::on : Mode::resting;
}

void rest_for(std::uint32_t calls) {
  rest.store(calls, std::memory_order_relaxed);
  Mode on = Mode::on;  // and not back from the end
  detail::mode.compare_exchange_strong(on, Mode::resting);
}

void take_rest() {
  const std::uint32_t calls = next_rest.load(std::memory_order_relaxed);
  next_rest.store(calls < kLongRest ? calls * 2 : kLongRest, std::memory_order_relaxed);
  rest_for(calls);
}

void begin_stretch() {
  stretch_began.store(0, std::memory_order_relaxed);
  comparing.store(true, std::memory_order_relaxed);
  rest_for(2 * kStretch);
}

void end_stretch() {
  if (!comparing.exchange(false, std::memory_order_relaxed)) return;
  const std::uint64_t began = stretch_began.load(std::memory_order_relaxed);
  if (began != 0) stretch_ns.store((thread::monotonic_nanoseconds() - began) / kStretch, std::memory_order_relaxed);
}

}  // namespace

namespace detail {

bool willing_slowly() {
  if (mode.load(std::memory_order_relaxed) == Mode::unread) {
    Mode unread = Mode::unread;
    const Mode first = chosen();
    if (first == Mode::resting) take_rest();
    mode.compare_exchange_strong(unread, first);
    if (several_devices()) wind_up();
  }
  const Mode now = mode.load(std::memory_order_relaxed);
  if (now != Mode::resting) return now == Mode::on;
  // Threads may count one call twice or not at all: the length of a rest is no promise.
  const std::uint32_t left = rest.load(std::memory_order_relaxed);
  if (left != 0) {
    if (left == kStretch && comparing.load(std::memory_order_relaxed)) {
      stretch_began.store(thread::monotonic_nanoseconds(), std::memory_order_relaxed);
    }
    rest.store(left - 1, std::memory_order_relaxed);
    return false;
  }
  end_stretch();
  if (!processor_to_spare()) {
    take_rest();
    return false;
  }
  Mode resting = Mode::resting;
  mode.compare_exchange_strong(resting, Mode::on);
  return mode.load(std::memory_order_relaxed) == Mode::on;
}

}  // namespace detail

// What else is chosen depends on the processors that the process may use when it begins to launch.
void read_whether_off() {
  Mode unread = Mode::unread;
  if (detail::mode.load(std::memory_order_relaxed) != unread) return;
  if (chosen() != Mode::off) return prepare_barriers();  // the submitter's, before it goes to sleep
  detail::mode.compare_exchange_strong(unread, Mode::off);
}

bool merges() { return merging.load(std::memory_order_relaxed); }

bool merges_at_once() { return merges() && always.load(std::memory_order_relaxed); }

bool in_use() {
  const Mode now = detail::mode.load(std::memory_order_relaxed);
  return now == Mode::on || now == Mode::resting || now == Mode::ending;
}

void judge(const Window& window) {
  if (always.load(std::memory_order_relaxed) || detail::mode.load(std::memory_order_relaxed) != Mode::on) return;
  const std::uint64_t cost = window.waiting_ns + window.items * kEnqueueNs;
  // A gain within the error of the measurement is none.
  if (window.submitting_ns <= cost + window.submitting_ns / 8) {
    comparison.interrupted();
    take_rest();
    return;
  }
  if (const std::uint64_t ns = stretch_ns.exchange(0, std::memory_order_relaxed)) comparison.straight(ns);
  switch (comparison.window(window.now_ns, window.calls)) {
    case Comparison::Next::as_before: break;
    case Comparison::Next::go_straight: begin_stretch(); break;
    case Comparison::Next::won: next_rest.store(kShortRest, std::memory_order_relaxed); break;
    case Comparison::Next::lost:
      comparison.interrupted();
      take_rest();
      break;
  }
}

void on_device(int device) {
  devices.fetch_or(std::uint64_t{1} << (static_cast<unsigned>(device) % 64));
  if (several_devices()) wind_up();
}

void wind_up() {
  for (Mode now = detail::mode.load(); now == Mode::on || now == Mode::resting;) {
    if (detail::mode.compare_exchange_weak(now, Mode::ending)) return;
  }
}

void give_up() { detail::mode.store(looked_at.load() ? Mode::looking : Mode::off, std::memory_order_relaxed); }

void look_at_events() {
  willing();  // reads the setting, if nobody has
  looked_at.store(true);
  Mode off = Mode::off;
  detail::mode.compare_exchange_strong(off, Mode::looking);
}

}  // namespace torpor::vm
