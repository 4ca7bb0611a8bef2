#include "link.h"

#include <algorithm>
#include <thread>

namespace sim {

void Link::carry(uint64_t bytes, double gb_per_s, Clock::time_point start) {
  if (gb_per_s <= 0 || bytes == 0) return;
  auto needed = std::chrono::duration<double, std::nano>(static_cast<double>(bytes) / gb_per_s);
  Clock::time_point end;
  {
    std::lock_guard lock(mutex_);
    end = std::max(start, busy_until_) + std::chrono::duration_cast<Clock::duration>(needed);
    busy_until_ = end;
  }
  std::this_thread::sleep_until(end);
}

}  // namespace sim
