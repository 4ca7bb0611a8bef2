// Asking a peer of the job for memory that it shares, or about an event.
#pragma once

#include <optional>

#include "message.h"

namespace torpor::share {

struct Answer {
  Descriptor descriptor;  // empty: the peer is gone, has no such block, or did not answer within ten seconds
  std::uint64_t size = 0;
  CUuuid device{};
};

// The caller holds a ForkHold from before the call until the descriptor is where it belongs.
Answer ask(const arena::SharedName& block);

// A reply with `known` 0 when the peer has ended, or knows no such event; nothing when it did not answer within ten seconds.
std::optional<EventReply> ask(const EventRequest& request);
// The same for a request that opens: `descriptor` is the one that comes along. The caller holds a ForkHold as above.
std::optional<EventReply> ask(const EventRequest& request, Descriptor& descriptor);

}  // namespace torpor::share
