// Whether calls are deferred at all, and whether that pays at present.
#pragma once

#include <atomic>
#include <cstdint>

namespace torpor::vm {
namespace detail {

enum class Mode : std::uint32_t { unread, off, looking, ending, resting, on };
extern std::atomic<Mode> mode;
bool willing_slowly();

}  // namespace detail

// Whether nothing is deferred, ever, so that no call has to wait for another, and nobody else has to see the calls either.
inline bool is_off() { return __builtin_expect(detail::mode.load(std::memory_order_relaxed) == detail::Mode::off, true); }

// Reads whether is_off(), if nobody has: at the first driver call, since a program may set much before it launches anything.
void read_whether_off();

// Whether calls may be deferred now. TORPOR_VM=defer asks for it, TORPOR_VM=always also where it does not pay (for tests); by
// default nothing is deferred.
inline bool willing() {
  const detail::Mode now = detail::mode.load(std::memory_order_relaxed);
  if (now == detail::Mode::on) [[likely]] return true;
  return now != detail::Mode::off && detail::willing_slowly();
}

// Whether sequences of launches that repeat may be launched as graphs (TORPOR_VM=full). TORPOR_VM=always-full does so at the
// first chance, as soon as two launches are a sequence, for tests.
bool merges();
bool merges_at_once();

// Whether the queue is in use by this process, even if it rests.
bool in_use();

inline constexpr std::uint64_t kEnqueueNs = 150;  // what a deferred call costs the program itself, roughly

// How some deferred calls went.
struct Window {
  std::uint64_t items;          // through the queue
  std::uint64_t calls;          // those, and calls that were left out
  std::uint64_t submitting_ns;  // the submitter's time in the driver: what the program saved
  std::uint64_t waiting_ns;     // the program's waits: what it lost
  std::uint64_t now_ns;         // monotonic, at their end
};

// Defers no more for a while when that was a bad bargain, by these figures or by the program's own pace. Called by one thread
// at a time.
void judge(const Window& window);

// The process has a context on this device. With two nothing is deferred any more: while one device takes no more work the
// submitter could not hand on what the other one is waited for with.
void on_device(int device);

// No deferring any more in this process; with items still in the queue, or for good with none.
void wind_up();
void give_up();

// From now on recordings of and waits for events are looked at, though nothing may be deferred.
void look_at_events();

}  // namespace torpor::vm
