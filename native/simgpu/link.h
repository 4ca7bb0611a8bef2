// The time that bytes take between host and device.
#pragma once

#include <cstdint>
#include <mutex>

#include "stream.h"

namespace sim {

// One direction of one device's link. Transfers share it: the second waits for the first.
class Link {
 public:
  // Sleeps until `bytes` have gone over a link of `gb_per_s` (10^9 bytes; 0 = no limit) that was free since `start`
  // at the earliest.
  void carry(uint64_t bytes, double gb_per_s, Clock::time_point start);

 private:
  std::mutex mutex_;
  Clock::time_point busy_until_{};
};

}  // namespace sim
