// Holding off the beginning of captures, for what a stream under capture does not bear.
#pragma once

#include <shared_mutex>

namespace torpor {

// Held exclusively while a capture begins. Whoever holds it shared and finds that none is active has none for as long as he does;
// he makes no call meanwhile that waits for the GPU.
std::shared_mutex& beginning_of_captures();

// Around a call that waits for all work of a context, of a thread that has no reason to expect a capture in it: one that began in
// another thread meanwhile would be spoiled, and so would the call. So a capture that is about to begin waits for these calls, and
// those that come later wait until it has begun. It waits some seconds at most: what is waited for may need who begins.
class ContextWait {
 public:
  ContextWait();
  ~ContextWait();
  ContextWait(const ContextWait&) = delete;
  ContextWait& operator=(const ContextWait&) = delete;

  // Not while a capture is active.
  bool allowed() const { return allowed_; }

 private:
  bool allowed_ = false;
};

}  // namespace torpor
