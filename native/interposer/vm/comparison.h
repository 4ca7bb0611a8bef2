// Whether deferring is faster than not, by the program's own pace: now and then some calls go straight, and the time that a call
// takes with everything around it is compared with that of the deferred ones before and after. Not thread safe.
#pragma once

#include <algorithm>
#include <cstdint>

namespace torpor::vm {

class Comparison {
 public:
  enum class Next { as_before, go_straight, won, lost };

  static constexpr std::uint32_t kFirst = 4, kMost = 256;  // windows of deferred calls between two stretches of straight ones

  // A window of `calls` deferred calls ended at `now_ns`. `go_straight` asks for a stretch of straight calls, during which no
  // window ends, and after which straight() tells how they went. `won`: it was not slower to defer; `lost`: it was, twice in a
  // row.
  Next window(std::uint64_t now_ns, std::uint64_t calls) {
    const std::uint64_t pace = start_ == 0 ? 0 : (now_ns - start_) / std::max<std::uint64_t>(calls, 1);
    start_ = now_ns;
    switch (state_) {
      case State::deferring:
        if (pace == 0 || --left_ != 0) return Next::as_before;
        before_ = pace;
        straight_ = 0;
        state_ = State::filling;
        return Next::go_straight;
      case State::filling:  // the queue was empty at its beginning, so no call had to wait for room
        state_ = State::comparing;
        return Next::as_before;
      case State::comparing:
        break;
    }
    state_ = State::deferring;
    const std::uint64_t deferred = (before_ + pace) / 2;
    // A rest where both are the same costs nothing.
    const bool slower = straight_ != 0 && straight_ + straight_ / 64 < deferred;
    gap_ = slower ? kFirst : std::min(gap_ * 2, kMost);
    left_ = gap_;
    losses_ = slower ? losses_ + 1 : 0;
    if (losses_ == 0) return straight_ != 0 ? Next::won : Next::as_before;
    if (losses_ < 2) return Next::as_before;
    losses_ = 0;
    return Next::lost;
  }

  // The straight calls took so long each.
  void straight(std::uint64_t ns) { straight_ = ns; }

  // Calls went straight for another reason: the present window is none.
  void interrupted() {
    start_ = 0;
    state_ = State::deferring;
    left_ = gap_;
  }

 private:
  enum class State { deferring, filling, comparing };

  State state_ = State::deferring;
  std::uint32_t gap_ = kFirst, left_ = kFirst, losses_ = 0;
  std::uint64_t start_ = 0, before_ = 0, straight_ = 0;
};

}  // namespace torpor::vm
