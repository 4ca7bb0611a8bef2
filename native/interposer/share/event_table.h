// Which recording of a shared event is the latest: one word for each event, in memory that its maker shares with whoever
// opens it.
//
// Whoever records stores who he is and a number of his own; that takes nobody's answer, and the words outlive their maker.
// The memory is part of each process's image like any other that processes share.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "../arena/descriptor.h"
#include "../arena/shared_name.h"

namespace torpor::share {

// A recording: its process, as the job sees it, and a number that this process gives no other of its recordings.
struct Recording {
  std::int64_t pid = 0;
  std::uint64_t number = 0;  // below kNumbers; 0: the event was never recorded
  bool operator==(const Recording&) const = default;
};

class EventWord {
 public:
  static constexpr unsigned kPidBits = 22;  // the kernel gives no greater ones
  static constexpr std::uint64_t kNumbers = 1ULL << (64 - kPidBits);

  Recording latest() const {
    const std::uint64_t whole = word_.load(std::memory_order_acquire);
    return {static_cast<std::int64_t>(whole % (1ULL << kPidBits)), whole >> kPidBits};
  }
  void store(const Recording& recording) {
    word_.store(recording.number << kPidBits | static_cast<std::uint64_t>(recording.pid), std::memory_order_release);
  }

 private:
  std::atomic<std::uint64_t> word_;
};
static_assert(sizeof(EventWord) == sizeof(std::uint64_t) && std::atomic<std::uint64_t>::is_always_lock_free);

// The caller holds one lock around all of these but descriptor(), which needs a ForkHold.
namespace event_table {

// A place for an event of this process; nothing when the system gives no memory or every place is taken.
std::optional<std::uint64_t> take();
void give(std::uint64_t place);
EventWord& own(std::uint64_t place);

// The word in another process's table. `memory` may be empty when it is known; null when it is none, and not known.
EventWord* of(const arena::SharedName& maker, const Descriptor& memory, std::uint64_t place);

// Of this process's table, for a peer. Empty when there is none, or the program has closed it.
Descriptor descriptor();
// In a forked child, which has no part in it.
void close_in_child();

}  // namespace event_table
}  // namespace torpor::share
