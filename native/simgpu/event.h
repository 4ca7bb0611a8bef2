// Events: a point in a stream and the time at which it was reached.
#pragma once

#include <memory>

#include "context.h"
#include "shared_event.h"
#include "stream.h"

namespace sim {

// One recording. The next recording makes a new one, so that waits on the old one keep their meaning.
struct Recording {
  Ticket ticket;
  std::atomic<int64_t> nanoseconds = 0;  // steady clock; valid once the ticket is done
};

// Guarded by the process lock.
struct Event {
  bool interprocess() const { return (flags & CU_EVENT_INTERPROCESS) != 0; }

  Event(Context* in, std::shared_ptr<Health> state, unsigned how) : context(in), health(std::move(state)), flags(how) {}

  Context* const context;
  const std::shared_ptr<Health> health;  // the context's
  const unsigned flags;
  std::shared_ptr<Recording> recording;  // null until recorded: counts as done
  std::shared_ptr<SharedEvent> shared;   // interprocess only, and then it alone says how far things are
  // When it was last recorded in a stream that was captured: where.
  std::shared_ptr<Capture> capture;
  std::vector<Node*> captured_at;
  bool foreign = false;  // opened by its handle
  bool stale = false;  // that capture is over: the event means nothing until it is recorded again
};

}  // namespace sim
