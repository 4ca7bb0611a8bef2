// Events: a point in a stream and the time at which it was reached.
#pragma once

#include <memory>

#include "context.h"
#include "stream.h"

namespace sim {

// One recording. The next recording makes a new one, so that waits on the old one keep their meaning.
struct Recording {
  Ticket ticket;
  std::atomic<int64_t> nanoseconds = 0;  // steady clock; valid once the ticket is done
};

// Guarded by the process lock.
struct Event {
  Context* const context;
  const unsigned flags;
  std::shared_ptr<Recording> recording;  // null until recorded: counts as done
};

}  // namespace sim
